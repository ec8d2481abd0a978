/* Stand-in for libcupti: the calls that the shim uses, and records made on demand by fake_* calls.
 *
 * Like CUPTI it calls back under a lock of its own, which FlushAll also takes: a shim that held its lock around
 * FlushAll would hang here too. Build with -DOLD for a version that cannot choose single functions. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void (*Request)(uint8_t **, size_t *, size_t *);
typedef void (*Complete)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef struct {
  uint8_t *data;
  size_t bytes, used;
} Buffer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Request request;
static Complete complete;
static uint64_t (*timestamp)(void);
static Buffer buffers[2]; /* device records, API records */
static uint8_t enabled[64];
static uint8_t functions[2][1024];
static int subscribe_code, enable_code, subscribed, flush_hangs;
static uint64_t dropped, device_ns, unzeroed, request_ns, registrations;
static uint32_t correlation;
static const uint32_t KERNEL_BYTES = 216;

static uint64_t cpu_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t size_of(uint32_t kind) {
  switch (kind) {
    case 4: case 5: return 40;
    case 10: return KERNEL_BYTES;
    case 1: return 96;
    case 2: return 88;
    case 22: return 112;
    case 38: case 17: return 56;
    case 39: return 16; /* a kind that the shim does not take */
    default: return 0;
  }
}

/* ---- the library's calls ---- */

int cuptiGetVersion(uint32_t *version) { return *version = 130001, 0; }
int cuptiSubscribe(void **subscriber, void *callback, void *user) {
  (void)callback, (void)user;
  if (subscribe_code) return subscribe_code;
  if (subscribed) return 39;
  subscribed = 1;
  *subscriber = &subscribed;
  return 0;
}
int cuptiUnsubscribe(void *subscriber) { return (void)subscriber, subscribed = 0, 0; }
int cuptiActivityRegisterCallbacks(Request r, Complete c) {
  pthread_mutex_lock(&lock);
  request = r, complete = c, registrations++;
  pthread_mutex_unlock(&lock);
  return 0;
}
int cuptiActivityRegisterTimestampCallback(uint64_t (*callback)(void)) { return timestamp = callback, 0; }
int cuptiActivitySetAttribute(uint32_t attribute, size_t *bytes, void *value) {
  return (void)attribute, (void)bytes, (void)value, 0;
}
int cuptiActivityEnable(uint32_t kind) {
  if (enable_code) return enable_code;
  pthread_mutex_lock(&lock);
  enabled[kind] = 1;
  pthread_mutex_unlock(&lock);
  return 0;
}
int cuptiActivityDisable(uint32_t kind) {
  pthread_mutex_lock(&lock);
  enabled[kind] = 0;
  pthread_mutex_unlock(&lock);
  return 0;
}
#ifndef OLD
static int choose(int runtime, uint32_t cbid, uint8_t on) {
  pthread_mutex_lock(&lock);
  functions[runtime][cbid % 1024] = on;
  pthread_mutex_unlock(&lock);
  return 0;
}
int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on) { return choose(1, cbid, on); }
int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on) { return choose(0, cbid, on); }
#endif
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
  (void)context, (void)stream;
  pthread_mutex_lock(&lock);
  *count = dropped, dropped = 0;
  pthread_mutex_unlock(&lock);
  return 0;
}
int cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **name) {
  *name = cbid == 211 && domain == 2 ? "cudaLaunchKernel_v7000" : cbid == 505 && domain == 2 ? "__cudaLaunchKernel_v13000" : NULL;
  return *name ? 0 : 1;
}
/* Takes no lock, as the real one. */
int cuptiActivityGetNextRecord(uint8_t *data, size_t valid, uint8_t **record) {
  uint8_t *next = *record ? *record + size_of(*(uint32_t *)(void *)*record) : data;
  if (next >= data + valid) return 12;
  if (!size_of(*(uint32_t *)(void *)next)) return 21;
  *record = next;
  return 0;
}

static void hand_over(Buffer *buffer) {
  if (buffer->data) complete(NULL, 0, buffer->data, buffer->bytes, buffer->used);
  buffer->data = NULL;
}
int cuptiActivityFlushAll(uint32_t flag) {
  (void)flag;
  struct timespec moment = {0, 1000000};
  while (__atomic_load_n(&flush_hangs, __ATOMIC_SEQ_CST)) nanosleep(&moment, NULL);
  pthread_mutex_lock(&lock);
  hand_over(&buffers[0]);
  hand_over(&buffers[1]);
  pthread_mutex_unlock(&lock);
  return 0;
}

/* ---- what tests ask for ---- */

static uint8_t *record(int of, uint32_t kind) {
  Buffer *buffer = &buffers[of];
  uint32_t size = size_of(kind);
  if (buffer->data && buffer->used + size > buffer->bytes) hand_over(buffer);
  if (!buffer->data) {
    size_t most = 0;
    uint64_t began = cpu_now();
    request(&buffer->data, &buffer->bytes, &most);
    request_ns += cpu_now() - began;
    buffer->used = 0;
    if (!buffer->data) return dropped++, NULL;
  }
  uint8_t *at = buffer->data + buffer->used;
  for (uint32_t i = 0; i < size; i++) unzeroed += at[i] != 0;
  buffer->used += size;
  *(uint32_t *)(void *)at = kind;
  return at;
}
#define PUT(type, offset, value) (*(type *)(void *)(at + (offset)) = (type)(value))

/* One call of a function and its kernel. */
static void launch(const char *name, uint32_t cbid) {
  uint64_t now = timestamp();
  uint8_t *at;
  uint32_t id = ++correlation;
#ifdef OLD
  int traced = enabled[5];
#else
  int traced = functions[1][cbid % 1024];
#endif
  if (traced && (at = record(1, 5))) {
    PUT(uint32_t, 4, cbid);
    PUT(uint64_t, 8, now);
    PUT(uint64_t, 16, now + 4000);
    PUT(uint32_t, 28, 77);
    PUT(uint32_t, 32, id);
  }
  if (enabled[10] && (at = record(0, 10))) {
    if (device_ns < now) device_ns = now;
    PUT(uint64_t, 16, device_ns);
    PUT(uint64_t, 24, device_ns += 3000 + id % 997);
    PUT(uint32_t, 48, 7);
    for (int i = 52; i < 76; i += 4) PUT(uint32_t, i, i == 52 ? 1024 : i == 64 ? 256 : 1);
    PUT(uint32_t, 92, id);
    PUT(const char *, 104, name);
  }
}
void fake_launch(uint32_t count, const char *name, uint32_t cbid) {
  for (uint32_t i = 0; i < count; i++) {
    pthread_mutex_lock(&lock);
    launch(name, cbid);
    pthread_mutex_unlock(&lock);
  }
}
/* 60 names as frameworks have them: long, and different only late. */
void fake_launch_many(uint32_t count) {
  static char kernels[60][200];
  static const char base[] = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_x00";
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 60 && !kernels[i][0]; i++) {
    memcpy(kernels[i], base, sizeof base);
    kernels[i][sizeof base - 3] = (char)('0' + i / 10), kernels[i][sizeof base - 2] = (char)('0' + i % 10);
  }
  pthread_mutex_unlock(&lock);
  for (uint32_t i = 0; i < count; i++) fake_launch(1, kernels[i % 60], 211);
}
/* `count` empty records of a kind. */
void fake_emit(uint32_t count, uint32_t kind) {
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < count; i++) record(0, kind);
  pthread_mutex_unlock(&lock);
}
/* A buffer of another profiler comes back through our callback. */
void fake_foreign(void) {
  uint8_t *other = aligned_alloc(64, 4096);
  complete(NULL, 0, other + 64, 4032, 0);
  free(other);
}
void fake_drop(uint64_t count) { dropped += count; }
void fake_subscribe_code(int code) { subscribe_code = code; }
void fake_enable_code(int code) { enable_code = code; }
void fake_flush_hangs(int on) { __atomic_store_n(&flush_hangs, on, __ATOMIC_SEQ_CST); }
uint64_t fake_unzeroed(void) { return unzeroed; }
uint64_t fake_request_ns(void) { return request_ns; }
uint64_t fake_registrations(void) { return registrations; }
/* Another profiler takes the callbacks and turns everything off. */
static void other_request(uint8_t **data, size_t *bytes, size_t *most) { *data = aligned_alloc(64, 4096), *bytes = 4096, *most = 0; }
static void other_complete(void *c, uint32_t s, uint8_t *data, size_t b, size_t v) { (void)c, (void)s, (void)b, (void)v, free(data); }
static uint64_t other_clock(void) { return 1; }
void fake_take_over(void) {
  pthread_mutex_lock(&lock);
  request = other_request, complete = other_complete, timestamp = other_clock;
  memset(enabled, 0, sizeof enabled);
  pthread_mutex_unlock(&lock);
}
