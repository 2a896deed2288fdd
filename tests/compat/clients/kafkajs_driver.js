// kafkajs behind JSON lines: {"call": name, "args": […]} in, {"result": …} or {"code": n, "error": text} out.
// Bytes travel as base64. One line is answered after the other.
"use strict";
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel, Partitioners } = require("kafkajs");
const readline = require("node:readline");

const kafka = new Kafka({ clientId: "kafkajs", brokers: [process.argv[2]], logLevel: logLevel.NOTHING, retry: { retries: 2 } });
const admin = kafka.admin();
const bytes = (text) => (text === null ? null : Buffer.from(text, "base64"));
const CODECS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 };
const TOPIC = ConfigResourceTypes.TOPIC;
const BROKER = ConfigResourceTypes.BROKER;

async function addCodecs() {
  CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");
  const lz4 = require("lz4-napi");
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: (buffer) => lz4.decompressFrame(buffer),
  });
  const zstd = require("@bokuweb/zstd-wasm");
  await zstd.init();
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
  });
}

const outgoing = (messages, partition) =>
  messages.map(({ value, key, timestamp, headers }) => ({
    partition: partition ?? undefined,
    value: bytes(value),
    key: bytes(key),
    timestamp: String(timestamp),
    headers: Object.fromEntries(headers.map(([name, header]) => [name, bytes(header)])),
  }));
const positions = (offsets) =>
  Object.entries(offsets).map(([partition, offset]) => ({ partition: Number(partition), offset: String(offset) }));
const writers = []; // { producer, transaction }: one of each transactional id, by the number they are asked for with

async function described(type, name) {
  const { resources } = await admin.describeConfigs({ resources: [{ type, name }], includeSynonyms: false });
  return Object.fromEntries(resources[0].configEntries.map((entry) => [entry.configName, entry.configValue]));
}

const calls = {
  async produce(topic, messages, codec, idempotent, acks, partition) {
    const producer = kafka.producer({
      idempotent,
      maxInFlightRequests: 1,
      createPartitioner: Partitioners.DefaultPartitioner,
    });
    await producer.connect();
    try {
      const [sent] = await producer.send({
        topic,
        acks,
        compression: CODECS[codec],
        messages: outgoing(messages, partition),
      });
      return sent && partition !== null ? Number(sent.baseOffset) : null;
    } finally {
      await producer.disconnect();
    }
  },
  async createTopic(topic, numPartitions, settings) {
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
    const made = await admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }] });
    if (!made) throw Object.assign(new Error("the topic exists"), { code: 36 }); // kafkajs says false to this one error
  },
  deleteTopic: (topic) => admin.deleteTopics({ topics: [topic] }),
  addPartitions: (topic, count) => admin.createPartitions({ topicPartitions: [{ topic, count }] }),
  async topics() {
    const { topics } = await admin.fetchTopicMetadata();
    return Object.fromEntries(topics.map((topic) => [topic.name, topic.partitions.length]));
  },
  settings: (topic) => described(TOPIC, topic),
  async brokerSettings() {
    const { brokers } = await admin.describeCluster();
    return described(BROKER, String(brokers[0].nodeId));
  },
  set: (name, settings) => {
    const configEntries = Object.entries(settings).map(([key, value]) => ({ name: key, value }));
    return admin.alterConfigs({ validateOnly: false, resources: [{ type: TOPIC, name, configEntries }] });
  },
  async deleteRecords(topic, offset) {
    await admin.fetchTopicOffsets(topic); // it looks for the leader only among topics that it has asked about before
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(offset) }] });
  },
  async cluster() {
    const { brokers, clusterId } = await admin.describeCluster();
    return [clusterId, brokers.map(({ host, port }) => `${host}:${port}`)];
  },
  async readUntil(topic, last, readUncommitted, partition, groupId) {
    const consumer = kafka.consumer({ groupId, readUncommitted, maxWaitTimeInMs: 50 });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const values = [];
    try {
      await new Promise((resolve, reject) => {
        consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
        const eachMessage = async ({ partition: found, message }) => {
          const value = message.value.toString("base64");
          if (found !== partition || values.at(-1) === last) return;
          values.push(value);
          if (value === last) resolve();
        };
        consumer.run({ autoCommit: false, eachMessage }).catch(reject);
      });
    } finally {
      await consumer.disconnect();
    }
    return values;
  },
  async committed(groupId, topic) {
    const [found] = await admin.fetchOffsets({ groupId, topics: [topic] });
    return found.partitions.map(({ partition, offset }) => [partition, Number(offset)]).filter(([, offset]) => offset >= 0);
  },
  commit: (groupId, topic, offsets) => admin.setOffsets({ groupId, topic, partitions: positions(offsets) }),
  async groups() {
    const { groups } = await admin.listGroups();
    return groups.map(({ groupId }) => groupId);
  },
  async groupState(group) {
    const { groups } = await admin.describeGroups([group]);
    if (groups[0].errorCode) throw Object.assign(new Error("describeGroups"), { code: groups[0].errorCode });
    return [groups[0].state, groups[0].members.length];
  },
  async deleteGroup(group) {
    try {
      await admin.deleteGroups([group]);
    } catch (error) {
      throw Object.assign(error, { code: error.groups[0].errorCode });
    }
  },
  async transactional(transactionalId, transactionTimeout) {
    const producer = kafka.producer({
      transactionalId,
      transactionTimeout,
      idempotent: true,
      maxInFlightRequests: 1,
      createPartitioner: Partitioners.DefaultPartitioner,
    });
    await producer.connect();
    return writers.push({ producer }) - 1;
  },
  async begin(writer) {
    writers[writer].transaction = await writers[writer].producer.transaction();
  },
  send: (writer, topic, messages, partition) =>
    writers[writer].transaction.send({ topic, acks: -1, messages: outgoing(messages, partition) }),
  sendOffsets: (writer, consumerGroupId, topic, offsets) =>
    writers[writer].transaction.sendOffsets({ consumerGroupId, topics: [{ topic, partitions: positions(offsets) }] }),
  end: (writer, how) => writers[writer].transaction[how](),
  close: (writer) => writers[writer].producer.disconnect(),
  async offsetAt(topic, timestamp) {
    const [found] = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp);
    return Number(found.offset);
  },
  async bounds(topic) {
    const [found] = await admin.fetchTopicOffsets(topic);
    return [Number(found.low), Number(found.high)];
  },
};

// Some errors come wrapped: once for the retries, once more for the partitions.
function answerOf(error) {
  for (let each = error; each; each = each.cause || (each.errors && each.errors[0])) {
    if (Number.isInteger(each.code)) return { code: each.code, error: each.message };
  }
  return { code: 0, error: String(error && error.stack) };
}

async function main() {
  await addCodecs();
  await admin.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { call, args } = JSON.parse(line);
    let answer;
    try {
      answer = { result: (await calls[call](...args)) ?? null };
    } catch (error) {
      answer = answerOf(error);
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
  await admin.disconnect();
  process.exit(0); // whatever producers are left
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
