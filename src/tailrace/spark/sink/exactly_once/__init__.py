"""Each row of a stream once, however often its driver, its executors and its tasks are killed, stopped and doubled.

    names         the transactional ids of a sink
    decision      the record that says which transactions an epoch consists of, and how far their end has come
    effects       what a step asks of the cluster, as values
    driver, task  the protocol: generators that yield effects and are sent their answers; nothing else happens in them
    ledger        the topic that holds the records
    transactions  carries effects out with our client
    writing       what a task does with its rows
    planned_sink, stream_writer, batch    what Spark calls

**Why rows come once.** The driver's transactional id fences: planning a batch takes it, and the identity it gives goes
with the plan to the tasks, with their messages back to the driver, and signs the decision. So a decision is written
only if nobody has planned since, on any machine. It names the open transactions of the batch's tasks; from then on it
is a fact that they commit, and whoever plans next commits those that are left before anything else. A batch that is
decided writes nothing when it is run again: a decision also says which batch was the last of each query that has
written under the sink before (of the latest 256), so queries may take turns. Batch writes are sinks apart from those of
streams; their epochs are numbered, and none is ever run again.

**Why nobody aborts what is decided.** InitProducerId aborts what is open under an id, whoever asks and however late. So
no task ever calls it on an id that another task may write under, and none calls it twice on one that it may write under
itself: where the answer is lost, so that the request may still come, it makes up another id. A task writes under an id
that it has just made up itself; or it inherits one together with its next identity, which the end of a decided
transaction has given. Exactly one can inherit: each id has a second one beside it, `…-claim`, that never has a
transaction; who gets from it the very next epoch after the last heir's has the identity, and everybody else makes up an
id. That the request for the claim may come late and once more only means that nobody inherits. Transactions that belong
to no decision are aborted by who holds the driver's id (when it has planned, and before that finished what was decided;
when its batch has ended; when it has failed, and by that can not be decided any more), each by the epoch in which it
was seen open, after one more look that the driver's id is still held: what comes later than that look has another
epoch, and is not touched.

**Why what is decided does not time out meanwhile.** The decision has a transaction of its own, with a timeout. It can
be committed until that is over and the coordinator has noticed. So it is committed only if each of the transactions
that it names was seen open after it began, with at least this left of its time, counted from the beginning of the
decision's: the decision's timeout, the interval in which coordinators notice, and time to end as many transactions as
there are. What can still be lost is what nobody ends in that time: the driver dies or stops behind the decision, and
none follows. That is told, and nothing goes on until it is accepted. Ids that the cluster has forgotten by then are
told apart: whether they were committed before cannot be found out.
"""
