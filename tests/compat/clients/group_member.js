// One member of a consumer group, on kafkajs: `group_member.js ADDRESS GROUP TOPIC`. See group_member.py.
"use strict";
const { Kafka, logLevel } = require("kafkajs");

const [address, groupId, topic] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "member", brokers: [address], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } });
const consumer = kafka.consumer({
  groupId,
  sessionTimeout: 6000,
  heartbeatInterval: 500,
  rebalanceTimeout: 20000,
  maxWaitTimeInMs: 50,
  allowAutoTopicCreation: false,
});
let owned = [];

// hrtime is the clock that Python calls monotonic.
const tell = (kind, more = {}) =>
  process.stdout.write(`{"at": ${process.hrtime.bigint()}, ${JSON.stringify({ kind, ...more }).slice(1)}\n`);

function giveUp() {
  tell("gives up", { partitions: owned });
  owned = [];
}

async function main() {
  consumer.on(consumer.events.REBALANCING, giveUp);
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    giveUp();
    owned = payload.memberAssignment[topic] || [];
    tell("owns", { partitions: owned });
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (payload.restart) return;
    console.error(payload.error);
    process.exit(1);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, uncommittedOffsets, isRunning, isStale }) => {
      for (const message of batch.messages) {
        if (!isRunning() || isStale()) break;
        tell("handled", { partitions: [batch.partition], offset: Number(message.offset) });
        resolveOffset(message.offset);
      }
      await commitOffsetsIfNecessary(uncommittedOffsets());
      await heartbeat();
    },
  });
}

process.stdin.resume();
process.stdin.on("end", async () => {
  await consumer.stop();
  tell("leaves");
  await consumer.disconnect();
  process.exit(0);
});
main().catch((error) => {
  console.error(error);
  process.exit(1);
});
