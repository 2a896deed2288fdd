"""Each row of a stream once, however often its driver, its executors and its tasks are killed, stopped and doubled.

    names         the transactional ids of a sink
    decision      the record that says which transactions an epoch consists of, and how far their end has come
    effects       what a step asks of the cluster, as values
    driver, task  the protocol: generators that yield effects and are sent their answers; nothing else happens in them
    ledger        the topic that holds the records
    transactions  carries effects out with our client
    writing       what a task does with its rows
    stream_writer, batch    what Spark calls

**Why rows come once.** The driver's transactional id fences: planning a batch takes it, and the identity it gives goes
with the plan to the tasks, with their messages back to the driver, and signs the decision. So a decision is written
only if nobody has planned since, on any machine. It names the open transactions of the batch's tasks; from then on it
is a fact that they commit, and whoever plans next commits those that are left before anything else. A batch that is
decided writes nothing when it is run again.

**Why nobody aborts what is decided.** InitProducerId aborts what is open under an id, whoever asks and however late. So
no task ever calls it on an id that another task may write under. A task writes under an id that it has just made up
itself; or it inherits one together with its next identity, which the end of a decided transaction has given. Exactly
one can inherit: each id has a second one beside it, `…-claim`, that never has a transaction; who gets from it the very
next epoch after the last heir's has the identity, and everybody else makes up an id. Transactions that belong to no
decision are aborted by who holds the driver's id, each by the epoch in which it was seen open, after one more look
that the driver's id is still held: what comes later than that look has another epoch, and is not touched.
"""
