/* Buffers that CUPTI fills, and its two callbacks that ask for them and bring them back. */
#ifndef TL_BUFFERS_H
#define TL_BUFFERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cupti.h"
#include "records.h"

typedef struct Buffer { /* lies in the HEADER_BYTES before the data */
  struct Buffer *next;
  size_t valid_bytes;
  uint64_t turn;
} Buffer;

enum { HEADER_BYTES = 64, PAGE_BYTES = 4096 };
_Static_assert(sizeof(Buffer) <= HEADER_BYTES, "the header fits");

/* The lock guards the lists for a few instructions, and is never held while CUPTI is called. */
static struct {
  pthread_mutex_t lock;
  Buffer *free, *ready, *ready_last;
  Buffer **all;
  size_t count, capacity, limit, bytes;
  atomic_bool we_zero;
  uint64_t turn; /* of the last buffer that came back full */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_bool forked;
enum { PRODUCED, LOST_MEMORY, LOST_WRITE, SKIPPED, COLUMNS };
static _Atomic uint64_t counters[KINDS][COLUMNS];
static struct {
  _Atomic uint64_t drain_cpu_ns, request_ns, requested, completed, stolen, foreign;
} stats;

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void count(uint32_t kind, int column, uint64_t by) {
  if (by) atomic_fetch_add_explicit(&counters[kind][column], by, memory_order_relaxed);
}

/* Whether a walk ended before the end of its buffer. Nobody knows how many records the rest holds, but not none. */
static void count_unread(int result) {
  if (result == CUPTI_END) return;
  count(0, PRODUCED, 1);
  count(0, LOST_MEMORY, 1);
}

static uint8_t *data_of(Buffer *buffer) { return (uint8_t *)buffer + HEADER_BYTES; }
static size_t data_bytes(void) { return pool.bytes - HEADER_BYTES; }

/* mmap gives zeroed pages that cost nothing until CUPTI writes to them. Under pool.lock. */
static Buffer *buffer_new(void) {
  if (pool.count == pool.capacity) {
    size_t capacity = pool.capacity ? 2 * pool.capacity : 64;
    Buffer **all = realloc(pool.all, capacity * sizeof *all);
    if (!all) return NULL;
    pool.all = all;
    pool.capacity = capacity;
  }
  Buffer *buffer = mmap(NULL, pool.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED) return NULL;
  return pool.all[pool.count++] = buffer;
}

static bool buffer_is_ours(const Buffer *buffer, size_t *at) {
  for (*at = 0; *at < pool.count; ++*at)
    if (pool.all[*at] == buffer) return true;
  return false;
}

static Buffer *pop_ready(uint64_t until) {
  Buffer *buffer = pool.ready;
  if (!buffer || buffer->turn > until) return NULL;
  pool.ready = buffer->next;
  if (!pool.ready) pool.ready_last = NULL;
  return buffer;
}

static void buffer_return(Buffer *buffer) {
  size_t at;
  if (pool.we_zero) memset(data_of(buffer), 0, data_bytes());
  pthread_mutex_lock(&pool.lock);
  bool surplus = pool.count > pool.limit && buffer_is_ours(buffer, &at);
  if (surplus) {
    pool.all[at] = pool.all[--pool.count];
  } else {
    buffer->next = pool.free;
    pool.free = buffer;
  }
  pthread_mutex_unlock(&pool.lock);
  if (surplus) munmap(buffer, pool.bytes);
}

/* CUPTI's result: 0 and the next record, or why there is none. */
static int next_record(Buffer *buffer, uint8_t **record) {
  return buffer->valid_bytes ? cupti.next_record(data_of(buffer), buffer->valid_bytes, record) : CUPTI_END;
}

/* Walks what is about to be overwritten, so that each lost record is counted under its kind. The walk is a call of
 * CUPTI within its callback, but one that takes no lock (looked at in 11.8 to 13.1). */
static void count_lost(Buffer *buffer) {
  uint8_t *record = NULL;
  int result;
  while (!(result = next_record(buffer, &record))) {
    uint32_t kind = kind_of(record);
    count(kind, kind ? PRODUCED : SKIPPED, 1);
    if (kind) count(kind, LOST_MEMORY, 1);
  }
  count_unread(result);
  atomic_fetch_add(&stats.stolen, 1);
}

/* On the launching thread. Older CUPTI crashes when it gets no buffer, so at the limit the oldest full one is taken,
 * and where CUPTI itself holds all of them (a buffer per thread) there will be more than the limit for a while. */
static void on_request(uint8_t **data, size_t *bytes, size_t *max_records) {
  *data = NULL;
  *bytes = *max_records = 0;
  if (atomic_load(&forked)) return;
  uint64_t began = clock_ns(CLOCK_MONOTONIC);
  pthread_mutex_lock(&pool.lock);
  Buffer *buffer = pool.free, *stolen = NULL;
  if (buffer) pool.free = buffer->next;
  if (!buffer && pool.count < pool.limit) buffer = buffer_new();
  if (!buffer) buffer = stolen = pop_ready(UINT64_MAX);
  if (!buffer) buffer = buffer_new();
  pthread_mutex_unlock(&pool.lock);
  if (stolen) {
    count_lost(stolen);
    if (pool.we_zero) memset(data_of(stolen), 0, data_bytes());
  }
  if (buffer) {
    *data = data_of(buffer);
    *bytes = data_bytes();
  }
  atomic_fetch_add(&stats.requested, 1);
  atomic_fetch_add(&stats.request_ns, clock_ns(CLOCK_MONOTONIC) - began);
}

static void on_complete(void *context, uint32_t stream, uint8_t *data, size_t bytes, size_t valid_bytes) {
  (void)context, (void)stream, (void)bytes;
  if (!data || atomic_load(&forked)) return;
  Buffer *buffer = (Buffer *)(void *)(data - HEADER_BYTES);
  size_t at;
  pthread_mutex_lock(&pool.lock);
  bool ours = buffer_is_ours(buffer, &at); /* another profiler's buffer may come back to us after it has gone */
  if (ours) {
    buffer->next = NULL;
    buffer->valid_bytes = valid_bytes;
    buffer->turn = ++pool.turn;
    if (pool.ready_last) pool.ready_last->next = buffer;
    else pool.ready = buffer;
    pool.ready_last = buffer;
  }
  pthread_mutex_unlock(&pool.lock);
  atomic_fetch_add(ours ? &stats.completed : &stats.foreign, 1);
}

#endif
