/* The thread that turns full buffers into records of the spool. */
#ifndef TL_DRAIN_H
#define TL_DRAIN_H

#include <pthread.h>
#include <signal.h>

#include "buffers.h"
#include "spool.h"

enum { BATCH = 8192 };

/* The lock guards requests to the thread, and is not held while it works: CUPTI calls back under a lock of its own. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  bool running, stopping, finished, force;
  uint32_t period_ms;
  uint64_t asked, answered;
  Record *batch;
  size_t batch_count;
  bool room;
} drainer = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic uint64_t enabled_kinds;

static void batch_write(void) {
  size_t stored = drainer.room ? spool_write(drainer.batch, drainer.batch_count) : 0;
  /* What failed once in this drain would fail again, and slowly; the next drain tries anew. */
  if (stored < drainer.batch_count) drainer.room = false;
  for (size_t i = stored; i < drainer.batch_count; i++) count(drainer.batch[i].kind, LOST_WRITE, 1);
  drainer.batch_count = 0;
}

static void buffer_convert(Buffer *buffer) {
  uint64_t seen[KINDS] = {0};
  uint8_t *record = NULL;
  int result;
  while (!(result = next_record(buffer, &record))) {
    if (drainer.batch_count == BATCH) batch_write();
    uint32_t kind = convert(record, &drainer.batch[drainer.batch_count]);
    seen[kind]++;
    drainer.batch_count += kind != 0;
  }
  count(0, SKIPPED, seen[0]);
  for (uint32_t kind = 1; kind < KINDS; kind++) count(kind, PRODUCED, seen[kind]);
  count_unread(result);
}

/* One by one, so that what waits can still be taken at the limit; up to those that are there now, so that it ends. */
static void drain(void) {
  pthread_mutex_lock(&pool.lock);
  uint64_t until = pool.turn;
  Buffer *buffer = pop_ready(until);
  pthread_mutex_unlock(&pool.lock);
  if (!buffer) return;
  drainer.room = spool_has_room();
  while (buffer) {
    buffer_convert(buffer);
    buffer_return(buffer);
    pthread_mutex_lock(&pool.lock);
    buffer = pop_ready(until);
    pthread_mutex_unlock(&pool.lock);
  }
  batch_write();
}

static void collect(bool asked, bool force) {
  uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  size_t lost = 0;
  /* While no kind is on, CUPTI belongs to whoever else uses it. */
  if (asked || atomic_load(&enabled_kinds)) {
    cupti.flush(force);
    if (cupti.dropped && cupti.dropped(NULL, 0, &lost) == 0) {
      count(0, PRODUCED, lost);
      count(0, LOST_MEMORY, lost);
    }
  }
  drain();
  atomic_fetch_add(&stats.drain_cpu_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID) - began);
}

static struct timespec after_ms(uint64_t milliseconds) {
  uint64_t at = clock_ns(CLOCK_MONOTONIC) + milliseconds * 1000000u;
  return (struct timespec){.tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u)};
}

static void *drain_loop(void *unused) {
  pthread_setname_np(pthread_self(), "tracelake-drain");
  pthread_mutex_lock(&drainer.lock);
  while (!drainer.finished) {
    struct timespec wake = after_ms(drainer.period_ms);
    int timed_out = 0;
    while (!drainer.stopping && drainer.asked == drainer.answered && !timed_out)
      timed_out = pthread_cond_timedwait(&drainer.changed, &drainer.lock, &wake);
    uint64_t answering = drainer.asked;
    bool last = drainer.stopping, asked = last || answering != drainer.answered, force = last || drainer.force;
    drainer.force = false;
    pthread_mutex_unlock(&drainer.lock);
    collect(asked, force);
    pthread_mutex_lock(&drainer.lock);
    drainer.answered = answering;
    drainer.finished = last;
    pthread_cond_broadcast(&drainer.changed);
  }
  pthread_mutex_unlock(&drainer.lock);
  return unused;
}

/* Python's signal handlers must not run here, nor a job's SIGTERM wait for us: all signals stay with other threads. */
static int thread_start(void) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int result = pthread_create(&drainer.thread, NULL, drain_loop, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return result;
}

#endif
