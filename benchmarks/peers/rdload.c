// rdload: drive one broker through librdkafka, and say how fast it went.
//
//   cc -O2 -o rdload rdload.c -ldl -lpthread
//   rdload LIBRARY PORT produce TOPIC PARTITIONS RECORDS BYTES
//   rdload LIBRARY PORT consume TOPIC PARTITIONS RECORDS
//   rdload LIBRARY PORT latency TOPIC PARTITIONS RATE WARM_UP_SECONDS SECONDS
//
// produce sends RECORDS of BYTES to the partitions in turn, acks=all, and ends when all are acknowledged. consume reads
// RECORDS from the start of all partitions together, without a group. latency sends RATE records of 100 bytes a second,
// each at its own moment with linger.ms=0, and consumes them in the same process: the time from the moment a record was
// due to where the consumer has it. Otherwise librdkafka's own settings; connecting is left out. One JSON line comes out.
// Any error stops the run.
//
// LIBRARY is opened at run time, so no header is needed: what is used of librdkafka's stable C interface is declared here.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct {
  int err; rd_kafka_topic_t *topic; int32_t partition; void *payload; size_t len; void *key; size_t key_len;
  int64_t offset; void *_private;
} rd_kafka_message_t;
enum { PRODUCER = 0, CONSUMER = 1, COPY = 2, BLOCK = 4, END_OF_PARTITION = -191, BATCH = 10000, RECORD_BYTES = 100 };
#define BEGINNING (-2)
#define END (-1)

static rd_kafka_conf_t *(*conf_new)(void);
static int (*conf_set)(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
static void (*on_delivery)(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
static rd_kafka_t *(*new)(int, rd_kafka_conf_t *, char *, size_t);
static rd_kafka_topic_t *(*topic_new)(rd_kafka_t *, const char *, void *);
static int (*produce)(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
static int (*poll)(rd_kafka_t *, int);
static int (*flush)(rd_kafka_t *, int);
static rd_kafka_queue_t *(*queue_new)(rd_kafka_t *);
static int (*consume_start)(rd_kafka_topic_t *, int32_t, int64_t, rd_kafka_queue_t *);
static ssize_t (*consume_batch)(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
static rd_kafka_message_t *(*consume_one)(rd_kafka_queue_t *, int);
static void (*message_destroy)(rd_kafka_message_t *);
static const char *(*err2str)(int);
static const char *(*version_str)(void);

static const char *port, *topic; static int partitions;
static long failed;

static void die(const char *what, const char *why) { fprintf(stderr, "rdload: %s: %s\n", what, why); exit(1); }
static double now_s(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double cpu_s(void) {
  struct rusage r; getrusage(RUSAGE_SELF, &r);
  return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void load(const char *path) {
  void *library = dlopen(path, RTLD_NOW); if (!library) die(path, dlerror());
  struct { const char *name; void **at; } wanted[] = {
    {"rd_kafka_conf_new", (void **)&conf_new}, {"rd_kafka_conf_set", (void **)&conf_set},
    {"rd_kafka_conf_set_dr_msg_cb", (void **)&on_delivery}, {"rd_kafka_new", (void **)&new},
    {"rd_kafka_topic_new", (void **)&topic_new}, {"rd_kafka_produce", (void **)&produce},
    {"rd_kafka_poll", (void **)&poll}, {"rd_kafka_flush", (void **)&flush},
    {"rd_kafka_queue_new", (void **)&queue_new}, {"rd_kafka_consume_start_queue", (void **)&consume_start},
    {"rd_kafka_consume_batch_queue", (void **)&consume_batch}, {"rd_kafka_consume_queue", (void **)&consume_one},
    {"rd_kafka_message_destroy", (void **)&message_destroy}, {"rd_kafka_err2str", (void **)&err2str},
    {"rd_kafka_version_str", (void **)&version_str},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!(*wanted[i].at = dlsym(library, wanted[i].name))) die(path, wanted[i].name);
}

static void delivered(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
  (void)client; (void)opaque;
  if (message->err) { failed++; die("a record was not delivered", err2str(message->err)); }
}

static rd_kafka_t *client(int kind, const char *linger_ms) {
  char why[512], servers[64]; rd_kafka_conf_t *conf = conf_new();
  snprintf(servers, sizeof servers, "127.0.0.1:%s", port);
  const char *settings[][2] = {
    {"bootstrap.servers", servers}, {"client.id", "rdload"}, {"log_level", "3"},
    {"acks", "all"}, {"linger.ms", linger_ms}, {"queue.buffering.max.messages", "1000000"}, {"delivery.report.only.error", "true"},
    {"auto.offset.reset", "error"},
  };
  int first = kind == PRODUCER ? 0 : 7, last = kind == PRODUCER ? 7 : 8;
  for (int i = 0; i < 8; i++)
    if ((i < 3 || (i >= first && i < last)) && conf_set(conf, settings[i][0], settings[i][1], why, sizeof why)) die(settings[i][0], why);
  if (kind == PRODUCER) on_delivery(conf, delivered);
  rd_kafka_t *made = new(kind, conf, why, sizeof why); if (!made) die("rd_kafka_new", why);
  return made;
}

static void send_one(rd_kafka_topic_t *to, int32_t partition, void *payload, size_t bytes) {
  if (produce(to, partition, COPY | BLOCK, payload, bytes, NULL, 0, NULL)) die("produce", "refused by librdkafka");
}

static rd_kafka_queue_t *consume_all(int64_t offset) {
  rd_kafka_t *consumer = client(CONSUMER, NULL); rd_kafka_queue_t *queue = queue_new(consumer);
  rd_kafka_topic_t *from = topic_new(consumer, topic, NULL); if (!from) die("rd_kafka_topic_new", topic);
  for (int p = 0; p < partitions; p++) if (consume_start(from, p, offset, queue)) die("rd_kafka_consume_start_queue", topic);
  return queue;
}

static void say(const char *kind, long records, long bytes, double took, double cpu) {
  printf("{\"kind\": \"%s\", \"records\": %ld, \"records_per_s\": %.0f, \"mb_per_s\": %.2f, \"seconds\": %.3f, "
         "\"client_cpu\": %.2f, \"librdkafka\": \"%s\"}\n", kind, records, records / took, bytes / took / 1e6, took, cpu / took, version_str());
}

static void run_produce(long records, size_t bytes) {
  rd_kafka_t *producer = client(PRODUCER, "5"); rd_kafka_topic_t *to = topic_new(producer, topic, NULL);
  char *payload = malloc(bytes); srand(1); for (size_t i = 0; i < bytes; i++) payload[i] = rand();
  for (int p = 0; p < partitions; p++) send_one(to, p, payload, bytes);  // connected, and the leaders known
  if (flush(producer, 30000)) die("flush", "the first records were not acknowledged within 30 s");
  double start = now_s(), cpu = cpu_s();
  for (long i = 0; i < records; i++) { send_one(to, i % partitions, payload, bytes); if (i % 1000 == 0) poll(producer, 0); }
  if (flush(producer, 120000)) die("flush", "not acknowledged within 120 s");
  say("produce", records, records * bytes, now_s() - start, cpu_s() - cpu);
}

static void run_consume(long records) {
  double start = now_s(), begun = 0, cpu = 0; long seen = 0, before = 0, bytes = 0;  // counted from the first batch on
  static rd_kafka_message_t *messages[BATCH]; rd_kafka_queue_t *queue = consume_all(BEGINNING);
  while (seen < records) {
    ssize_t n = consume_batch(queue, 1000, messages, BATCH);
    if (now_s() - start > 120) die("consume", "not done within 120 s");
    for (ssize_t i = 0; i < n; i++) {
      if (messages[i]->err && messages[i]->err != END_OF_PARTITION) die("consume", err2str(messages[i]->err));
      if (!messages[i]->err) { seen++; bytes += messages[i]->len; }
      message_destroy(messages[i]);
    }
    if (seen && !begun) { begun = now_s(); cpu = cpu_s(); before = seen; bytes = 0; }
  }
  say("consume", seen - before, bytes, now_s() - begun, cpu_s() - cpu);
}

typedef struct { double from, until; double *values; long count, room, sent; int is_over; } Latency;

static void *receive(void *argument) {
  Latency *all = argument; rd_kafka_queue_t *queue = consume_all(END);
  while (!all->is_over) {
    rd_kafka_message_t *message = consume_one(queue, 100); if (!message) continue;
    if (message->err && message->err != END_OF_PARTITION) die("consume", err2str(message->err));
    if (!message->err && message->len == RECORD_BYTES) {
      double due; memcpy(&due, message->payload, sizeof due);
      if (due >= all->from && due < all->until && all->count < all->room) all->values[all->count++] = now_s() - due;
    }
    message_destroy(message);
  }
  return NULL;
}

static int by_value(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }

static void run_latency(long rate, double warm_up, double seconds) {
  rd_kafka_t *producer = client(PRODUCER, "0"); rd_kafka_topic_t *to = topic_new(producer, topic, NULL);
  char payload[RECORD_BYTES] = {0}; Latency all = {0}; pthread_t receiver;
  prctl(PR_SET_TIMERSLACK, 1);
  for (int p = 0; p < partitions; p++) send_one(to, p, payload, sizeof payload - 1);
  if (flush(producer, 30000)) die("flush", "the first records were not acknowledged within 30 s");
  double start = now_s() + 0.5; all.from = start + warm_up; all.until = all.from + seconds;
  all.room = rate * seconds * 1.1 + 1; all.values = calloc(all.room, sizeof(double));
  pthread_create(&receiver, NULL, receive, &all);
  double cpu = cpu_s();
  for (long i = 0; i < rate * (warm_up + seconds); i++) {
    double due = start + (double)i / rate;
    if (now_s() < due) {
      struct timespec t = {(time_t)due, (long)((due - (time_t)due) * 1e9)}; clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    }
    memcpy(payload, &due, sizeof due); send_one(to, i % partitions, payload, sizeof payload); all.sent += due >= all.from;
    if (i % 100 == 0) poll(producer, 0);
  }
  if (flush(producer, 30000)) die("flush", "not acknowledged within 30 s");
  for (int i = 0; i < 100 && all.count < all.sent; i++) { struct timespec t = {0, 50000000}; nanosleep(&t, NULL); }
  all.is_over = 1; pthread_join(receiver, NULL);
  if (all.count < all.sent * 999 / 1000) die("latency", "not all records came back within 5 s");
  qsort(all.values, all.count, sizeof(double), by_value);
  printf("{\"kind\": \"latency\", \"records\": %ld, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f, \"client_cpu\": %.2f, "
         "\"librdkafka\": \"%s\"}\n", all.count, 1e3 * all.values[all.count / 2], 1e3 * all.values[all.count * 99 / 100],
         1e3 * all.values[all.count * 999 / 1000], 1e3 * all.values[all.count - 1], (cpu_s() - cpu) / (warm_up + seconds), version_str());
}

int main(int argc, char **argv) {
  if (argc < 7) { fprintf(stderr, "rdload LIBRARY PORT produce|consume|latency TOPIC PARTITIONS …\n"); return 2; }
  load(argv[1]); port = argv[2]; topic = argv[4]; partitions = atoi(argv[5]); long number = atol(argv[6]);
  if (partitions < 1 || number < 1) { fprintf(stderr, "rdload: an argument is out of range\n"); return 2; }
  if (!strcmp(argv[3], "produce") && argc == 8 && atol(argv[7]) > 0) run_produce(number, atol(argv[7]));
  else if (!strcmp(argv[3], "consume") && argc == 7) run_consume(number);
  else if (!strcmp(argv[3], "latency") && argc == 9) run_latency(number, atof(argv[7]), atof(argv[8]));
  else { fprintf(stderr, "rdload: no such run: %s\n", argv[3]); return 2; }
  fflush(stdout); _exit(0);  // tearing the client down takes long and tells nothing
}
