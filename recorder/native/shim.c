/* libtracelake_shim: drains CUPTI's activity buffers into the spool.
 *
 * CUPTI calls back on the threads that launch kernels, under its own lock; a callback that waited for Python's lock
 * there could stop the job for good. So all of this is C, loaded by ctypes, and knows nothing of Python or of CUDA's
 * headers. Callbacks only move buffers between lists; one thread, ours, converts and writes. One translation unit:
 *
 *   cupti.h    the functions of libcupti          records.h  CUPTI's records to 40 bytes
 *   buffers.h  buffers and CUPTI's callbacks      names.h    kernel names to numbers
 *   drain.h    the thread                         spool.h    the files
 */
#define _GNU_SOURCE
#include "drain.h"

enum {
  TL_DEAD = -3, /* in a forked child, or nothing is open */
  DEVICE_POOL_LIMIT = 16,
  EXIT_TIMEOUT_MS = 3000,
};

/* One clock for kernels, calls and Python's annotations (time.perf_counter_ns), without the steps of NTP. */
static uint64_t on_timestamp(void) { return clock_ns(CLOCK_MONOTONIC); }

static void on_callback(void *user, uint32_t domain, uint32_t cbid, const void *data) {
  (void)user, (void)domain, (void)cbid, (void)data; /* the subscription only claims CUPTI's one slot */
}

/* The child has the parent's lists, locks in any state and no thread. It gives up recording for good, touching neither
 * locks nor CUPTI; its copies of the descriptors are all there is to give back. */
static void in_child(void) {
  atomic_store(&forked, true);
  atomic_store(&enabled_kinds, 0);
  spool_close();
}

static void prepare_once(void) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&drainer.changed, &monotonic);
  pthread_atfork(NULL, NULL, in_child);
}

/* 0; -1 the library cannot be loaded; TL_MISSING a function is missing. tl_problem() says which. */
int tl_load(const char *path) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, prepare_once);
  int result = cupti_load(path);
  return result || names_prepare() ? result : -1;
}

const char *tl_problem(void) { return problem; }

uint32_t tl_version(void) {
  uint32_t version = 0;
  return cupti.version(&version) == 0 ? version : 0;
}

/* The result of CUPTI: 39 (before CUDA 12: 12) where another profiler has the slot. */
int tl_subscribe(void) {
  if (atomic_load(&forked)) return TL_DEAD;
  return cupti.subscriber ? 0 : cupti.subscribe(&cupti.subscriber, (void *)on_callback, NULL);
}

int tl_unsubscribe(void) {
  if (atomic_load(&forked) || !cupti.subscriber) return 0;
  int result = cupti.unsubscribe(cupti.subscriber);
  cupti.subscriber = NULL;
  return result;
}

/* Claims time and buffers; to be called again after another profiler had them. */
int tl_register(void) {
  if (atomic_load(&forked)) return TL_DEAD;
  int result = cupti.register_timestamp((void *)on_timestamp);
  return result ? result : cupti.register_callbacks((void *)on_request, (void *)on_complete);
}

/* Before the first CUDA context where possible, for then the attributes count for all of it. Buffers keep the size
 * that they had first: some may be with CUPTI. */
int tl_setup(size_t buffer_bytes, size_t buffer_limit) {
  if (atomic_load(&forked)) return TL_DEAD;
  uint8_t zeroed = 1;
  size_t devices = DEVICE_POOL_LIMIT, zeroed_bytes = sizeof zeroed, devices_bytes = sizeof devices;
  pthread_mutex_lock(&pool.lock);
  if (!pool.bytes) pool.bytes = (buffer_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  pool.limit = buffer_limit ? buffer_limit : 1;
  pthread_mutex_unlock(&pool.lock);
  if (cupti.attribute) {
    pool.we_zero = cupti.attribute(ATTRIBUTE_ZEROED, &zeroed_bytes, &zeroed) == 0;
    cupti.attribute(ATTRIBUTE_DEVICE_POOL_LIMIT, &devices_bytes, &devices);
  }
  return tl_register();
}

int tl_kind(uint32_t kind, int on) {
  if (atomic_load(&forked)) return TL_DEAD;
  int result = on ? cupti.enable(kind) : cupti.disable(kind);
  if (!on) atomic_fetch_and(&enabled_kinds, ~(1ull << kind % 64));
  else if (result == 0) atomic_fetch_or(&enabled_kinds, 1ull << kind % 64);
  return result;
}

/* One function of the runtime (kind 5) or the driver (kind 4). TL_MISSING: turn the whole kind on; records of other
 * functions are then skipped here. A function stays wanted when it is turned off: its records may still be on the way. */
int tl_api(uint32_t kind, uint32_t cbid, int on) {
  if (atomic_load(&forked)) return TL_DEAD;
  if (on) want_api(kind, cbid);
  int (*set)(uint32_t, uint8_t) = kind == KIND_RUNTIME ? cupti.runtime_api : cupti.driver_api;
  return set ? set(cbid, on != 0) : TL_MISSING;
}

/* The function's name, or NULL; `kind` as above. */
const char *tl_api_name(uint32_t kind, uint32_t cbid) {
  const char *name = NULL;
  return cupti.callback_name(kind == KIND_RUNTIME ? CUPTI_DOMAIN_RUNTIME : CUPTI_DOMAIN_DRIVER, cbid, &name) == 0 ? name : NULL;
}

/* Blocks until everything that CUPTI has handed out is in the spool, for at most `timeout_ms`; `force` also asks for
 * buffers with kernels that are not finished. 0, ETIMEDOUT or TL_DEAD. The thread does the work: one drainer, and a
 * CUPTI that hangs cannot hang the job. */
int tl_flush(int force, uint32_t timeout_ms) {
  if (atomic_load(&forked)) return TL_DEAD;
  struct timespec until = after_ms(timeout_ms);
  int result = 0;
  pthread_mutex_lock(&drainer.lock);
  if (!drainer.running) result = TL_DEAD;
  uint64_t ticket = result ? 0 : ++drainer.asked;
  drainer.force |= force != 0;
  pthread_cond_broadcast(&drainer.changed);
  while (!result && drainer.answered < ticket && !drainer.finished)
    result = pthread_cond_timedwait(&drainer.changed, &drainer.lock, &until);
  pthread_mutex_unlock(&drainer.lock);
  return result;
}

/* A last forced flush, then the end of thread and files. ETIMEDOUT: the thread hangs in CUPTI and keeps them. */
int tl_close(uint32_t timeout_ms) {
  if (atomic_load(&forked)) return TL_DEAD;
  struct timespec until = after_ms(timeout_ms);
  int result = 0;
  pthread_mutex_lock(&drainer.lock);
  bool was_running = drainer.running && !drainer.stopping;
  drainer.stopping = true;
  pthread_cond_broadcast(&drainer.changed);
  while (was_running && !drainer.finished && !result)
    result = pthread_cond_timedwait(&drainer.changed, &drainer.lock, &until);
  bool finished = drainer.finished;
  pthread_mutex_unlock(&drainer.lock);
  if (!was_running) return 0;
  if (!finished) {
    pthread_detach(drainer.thread);
    return result;
  }
  pthread_join(drainer.thread, NULL);
  spool_close();
  drainer.running = false;
  return tl_unsubscribe();
}

/* An exit that nobody told us of: libraries are torn down next, and the thread must not be inside CUPTI then. */
static void at_exit(void) { tl_close(EXIT_TIMEOUT_MS); }

/* 0, or errno. Starts the thread that drains every `period_ms` and on tl_flush. */
int tl_open(const char *folder, uint64_t file_bytes, uint32_t period_ms, uint64_t reserve_bytes) {
  if (atomic_load(&forked)) return EPERM;
  if (drainer.running) return EBUSY;
  if (!drainer.batch && !(drainer.batch = malloc(BATCH * sizeof *drainer.batch))) return ENOMEM;
  if (!spool_open(folder, file_bytes, reserve_bytes)) return atomic_load(&spool.error);
  drainer.period_ms = period_ms;
  drainer.stopping = drainer.finished = drainer.force = false;
  int result = thread_start();
  drainer.running = result == 0;
  if (result) spool_close();
  static bool told;
  if (!result && !told) told = atexit(at_exit) == 0;
  return result;
}

/* Off: records are counted as dropped instead of written, until it is on again. */
void tl_writing(int on) { atomic_store(&spool.wanted, on != 0); }

/* KINDS rows of produced, dropped for memory, dropped for want of space, skipped. Row 0: what CUPTI dropped itself,
 * and records of kinds that nobody asked for as skipped. Exact after a flush; in between a drain may be half counted. */
void tl_counts(uint64_t *out) {
  for (int kind = 0; kind < KINDS; kind++)
    for (int column = 0; column < COLUMNS; column++) *out++ = atomic_load(&counters[kind][column]);
}

uint64_t tl_position(void) { return atomic_load(&spool.position); }

/* Eight numbers: CPU ns of draining, ns and number of buffer requests, buffers back, taken at the limit, of others;
 * buffers allocated; errno of the last failed write. */
void tl_stats(uint64_t *out) {
  *out++ = atomic_load(&stats.drain_cpu_ns);
  *out++ = atomic_load(&stats.request_ns);
  *out++ = atomic_load(&stats.requested);
  *out++ = atomic_load(&stats.completed);
  *out++ = atomic_load(&stats.stolen);
  *out++ = atomic_load(&stats.foreign);
  bool lockable = !atomic_load(&forked);
  if (lockable) pthread_mutex_lock(&pool.lock);
  *out++ = pool.count;
  if (lockable) pthread_mutex_unlock(&pool.lock);
  *out = (uint64_t)atomic_load(&spool.error);
}

/* For tests and measurements: converts one buffer of the caller. Not while a spool is open: names have one user. */
long tl_parse(uint8_t *data, size_t valid_bytes, void *out, long most) {
  Record *records = out;
  uint8_t *record = NULL;
  long made = 0;
  if (drainer.running) return TL_DEAD;
  while (made < most && cupti.next_record(data, valid_bytes, &record) == 0) made += convert(record, &records[made]) != 0;
  return made;
}
