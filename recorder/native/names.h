/* Kernel names as small numbers. Used by one thread at a time: the one that drains. */
#ifndef TL_NAMES_H
#define TL_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
  NAME_NONE = 0, /* CUPTI gave no name */
  NAME_FULL = 1, /* more distinct names than NAMES_LIMIT, or no memory for one more */
  NAMES_LIMIT = 1 << 16,
  NAMES_CACHED = 1 << 14,
};

static struct {
  char **text; /* by number */
  uint32_t *slots; /* open addressing by content: number + 1, or 0; twice the capacity, so never full */
  uint32_t count, capacity;
} names;

/* CUPTI gives the same address again and again: found here, a name costs one strcmp. That also keeps numbers right
 * when a module is unloaded and another name takes its address. */
static struct {
  const char *address;
  uint32_t id;
} name_cache[NAMES_CACHED];

static uint32_t *name_slot(const char *name) {
  uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */
  for (const char *each = name; *each; each++) hash = (hash ^ (uint8_t)*each) * 0x100000001b3ull;
  uint32_t mask = 2 * names.capacity - 1, at = (uint32_t)(hash ^ hash >> 32) & mask;
  while (names.slots[at] && strcmp(names.text[names.slots[at] - 1], name)) at = (at + 1) & mask;
  return &names.slots[at];
}

static bool names_grow(void) {
  uint32_t capacity = names.capacity ? 2 * names.capacity : 512;
  char **text = realloc(names.text, capacity * sizeof *text);
  if (!text) return false;
  names.text = text;
  uint32_t *slots = calloc(2 * (size_t)capacity, sizeof *slots);
  if (!slots) return false;
  free(names.slots);
  names.slots = slots;
  names.capacity = capacity;
  for (uint32_t id = 0; id < names.count; id++) *name_slot(names.text[id]) = id + 1;
  return true;
}

static uint32_t name_add(const char *name) {
  uint32_t *slot = names.capacity ? name_slot(name) : NULL;
  if (slot && *slot) return *slot - 1;
  if (names.count == names.capacity) {
    if (names.count == NAMES_LIMIT || !names_grow()) return NAME_FULL;
    slot = name_slot(name);
  }
  char *copy = strdup(name);
  if (!copy) return NAME_FULL;
  names.text[names.count] = copy;
  *slot = ++names.count;
  return names.count - 1;
}

/* Numbers that stand for the lack of a name are names too, so that a reader needs no special case. */
static bool names_prepare(void) {
  return names.count > NAME_FULL || (name_add("<no name>") == NAME_NONE && name_add("<too many names>") == NAME_FULL);
}

static inline uint32_t name_id(const char *name) {
  if (!name) return NAME_NONE;
  uint32_t at = (uint32_t)((uintptr_t)name * 0x9E3779B97F4A7C15ull >> 50);
  if (name_cache[at].address == name && !strcmp(names.text[name_cache[at].id], name)) return name_cache[at].id;
  uint32_t id = name_add(name);
  name_cache[at].address = name;
  name_cache[at].id = id;
  return id;
}

#endif
