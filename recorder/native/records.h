/* The spool's 40-byte record, made from CUPTI's records.
 *
 * CUPTI's structures only grow at their end: every field read here has had the same offset from CUDA 11.8 to 13.5,
 * so neither headers nor a table of sizes are needed. */
#ifndef TL_RECORDS_H
#define TL_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "names.h"

enum {
  KIND_MEMCPY = 1,
  KIND_MEMSET = 2,
  KIND_DRIVER = 4,
  KIND_RUNTIME = 5,
  KIND_KERNEL = 10,
  KIND_OVERHEAD = 17,
  KIND_MEMCPY_PEER = 22,
  KIND_SYNC = 38,
  KIND_GRAPH = 51,
  KINDS = 64, /* of counters; kind 0 stands for all that is not converted */
};

typedef struct {
  uint8_t kind, device;
  uint16_t stream;
  uint32_t name;
  uint64_t start_ns, duration_ns;
  uint32_t correlation, a, b, c;
} Record;
_Static_assert(sizeof(Record) == 40, "the format of the spool");

/* Versions before CUDA 12.6 or so cannot trace single functions: the whole kind is on, and this list is the filter. */
enum { API_LIMIT = 2048 };
static _Atomic uint64_t wanted_apis[2][API_LIMIT / 64];

static inline uint32_t u32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
static inline uint64_t u64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static void want_api(uint32_t kind, uint32_t cbid) {
  if (cbid < API_LIMIT)
    atomic_fetch_or_explicit(&wanted_apis[kind == KIND_RUNTIME][cbid / 64], 1ull << cbid % 64, memory_order_relaxed);
}

/* The kind, or 0 for a record that the spool does not take. */
static inline uint32_t kind_of(const uint8_t *r) {
  const uint64_t known = 1ull << KIND_MEMCPY | 1ull << KIND_MEMSET | 1ull << KIND_DRIVER | 1ull << KIND_RUNTIME |
                         1ull << KIND_KERNEL | 1ull << KIND_OVERHEAD | 1ull << KIND_MEMCPY_PEER | 1ull << KIND_SYNC |
                         1ull << KIND_GRAPH;
  uint32_t kind = u32(r);
  if (kind >= KINDS || !(known >> kind & 1)) return 0;
  if (kind == KIND_RUNTIME || kind == KIND_DRIVER) {
    uint32_t cbid = u32(r + 4);
    if (cbid >= API_LIMIT) return 0;
    uint64_t word = atomic_load_explicit(&wanted_apis[kind == KIND_RUNTIME][cbid / 64], memory_order_relaxed);
    if (!(word >> cbid % 64 & 1)) return 0;
  }
  return kind;
}

static inline uint32_t capped(uint64_t value, uint32_t most) { return value < most ? (uint32_t)value : most; }

/* Blocks of a grid or threads of a block; a product beyond 32 bits reads as the largest number. */
static inline uint32_t volume(const uint8_t *r) {
  uint64_t plane = capped((uint64_t)u32(r) * u32(r + 4), UINT32_MAX);
  return capped(plane * u32(r + 8), UINT32_MAX);
}

/* CUPTI leaves 0 where it could not take a time; an end before its start would make a negative duration. */
static inline void times(Record *out, const uint8_t *r) {
  uint64_t start = u64(r), end = u64(r + 8);
  out->start_ns = start;
  out->duration_ns = end > start ? end - start : 0;
}

static inline void place(Record *out, uint32_t device, uint32_t stream) {
  out->device = (uint8_t)capped(device, UINT8_MAX);
  out->stream = (uint16_t)capped(stream, UINT16_MAX); /* 65535: none, or a number that does not fit */
}

/* Offsets of the copies and of memset are the same except for the correlation of a copy between devices. */
static inline void memory_operation(Record *out, const uint8_t *r, size_t correlation) {
  uint64_t bytes = u64(r + 8);
  times(out, r + 16);
  place(out, u32(r + 32), u32(r + 40));
  out->correlation = u32(r + correlation);
  out->a = (uint32_t)bytes;
  out->b = (uint32_t)(bytes >> 32);
}

/* Returns the kind, or 0 where nothing was written to `out`. */
static inline uint32_t convert(const uint8_t *r, Record *out) {
  uint32_t kind = kind_of(r);
  if (!kind) return 0;
  memset(out, 0, sizeof *out);
  out->kind = (uint8_t)kind;
  switch (kind) {
    case KIND_KERNEL:
      times(out, r + 16);
      place(out, u32(r + 40), u32(r + 48));
      out->correlation = u32(r + 92);
      out->name = name_id((const char *)(uintptr_t)u64(r + 104));
      out->a = volume(r + 52);
      out->b = volume(r + 64);
      out->c = u32(r + 156); /* graph */
      break;
    case KIND_RUNTIME:
    case KIND_DRIVER:
      times(out, r + 8);
      out->name = u32(r + 4); /* function */
      out->correlation = u32(r + 32);
      out->a = u32(r + 28); /* thread */
      break;
    case KIND_MEMCPY:
      memory_operation(out, r, 44);
      out->name = r[4]; /* direction */
      out->c = r[5] | (uint32_t)r[6] << 8;
      break;
    case KIND_MEMCPY_PEER:
      memory_operation(out, r, 60);
      out->name = r[4];
      out->c = capped(u32(r + 44), UINT16_MAX) | capped(u32(r + 52), UINT16_MAX) << 16; /* from, to device */
      break;
    case KIND_MEMSET:
      memory_operation(out, r, 44);
      out->name = u32(r + 4); /* value */
      break;
    case KIND_SYNC:
      times(out, r + 8);
      place(out, 0, u32(r + 32));
      out->name = u32(r + 4); /* type */
      out->correlation = u32(r + 24);
      out->a = u32(r + 36); /* event */
      break;
    case KIND_OVERHEAD:
      times(out, r + 24);
      out->name = u32(r + 4);
      out->a = u32(r + 8) == 2 ? u32(r + 16) : 0; /* the object is a thread in a process: its thread */
      break;
    case KIND_GRAPH:
      times(out, r + 8);
      place(out, u32(r + 24), u32(r + 36));
      out->correlation = u32(r + 4);
      out->c = u32(r + 28);
      break;
  }
  return kind;
}

#endif
