/* The files of the spool: append-only, always whole records, kernel names before the records that use them.
 * Written by one thread, the one that drains; only the position, the error and the switch are read or set by others. */
#ifndef TL_SPOOL_H
#define TL_SPOOL_H

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "names.h"
#include "records.h"

enum { NUMBER_LIMIT = 100000, BYTES_BITS = 40 };

static struct {
  int folder, events, names; /* descriptors, -1 where closed */
  uint32_t number, named; /* of the events file; names written to this folder */
  uint64_t bytes, names_bytes, file_bytes, reserve_bytes;
  char *line;
  size_t line_bytes;
  atomic_bool wanted; /* the switch of a reader that is behind */
  atomic_int error; /* errno of the last failure, for a message */
  _Atomic uint64_t position; /* number << BYTES_BITS | bytes: one word, so that both are of the same moment */
} spool = {.folder = -1, .events = -1, .names = -1, .wanted = true};

static bool spool_failed(void) {
  atomic_store(&spool.error, errno ? errno : EIO);
  return false;
}

static void spool_moved(uint64_t bytes) {
  spool.bytes = bytes;
  atomic_store(&spool.position, (uint64_t)spool.number << BYTES_BITS | bytes);
}

static int append_to(const char *name) {
  return openat(spool.folder, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
}

/* The old file stays open until the new one is: without one there is nothing to fall back to. */
static bool spool_next(uint32_t number) {
  char name[32];
  snprintf(name, sizeof name, "events-%05u.bin", number % NUMBER_LIMIT);
  int events = append_to(name);
  if (events < 0) return spool_failed();
  if (spool.events >= 0) close(spool.events);
  spool.events = events;
  spool.number = number;
  spool_moved(0);
  return true;
}

/* Only closes: this also runs in a forked child, where no lock may be taken and no memory freed. */
static void spool_close(void) {
  int *const files[] = {&spool.events, &spool.names, &spool.folder};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    if (*files[i] >= 0) close(*files[i]);
    *files[i] = -1;
  }
}

/* Fails with EEXIST where the folder already has a spool: numbers of names would mean something else in it. */
static bool spool_open(const char *folder, uint64_t file_bytes, uint64_t reserve_bytes) {
  errno = 0;
  spool.file_bytes = file_bytes / sizeof(Record) * sizeof(Record);
  spool.reserve_bytes = reserve_bytes;
  spool.named = 0;
  spool.names_bytes = 0;
  if (!spool.file_bytes || spool.file_bytes >> BYTES_BITS) {
    errno = EINVAL;
    return spool_failed();
  }
  spool.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  spool.names = spool.folder < 0 ? -1 : append_to("names.tsv");
  if (spool.names >= 0 && spool_next(0)) return true;
  int why = errno;
  spool_close();
  errno = why;
  return spool_failed();
}

static size_t write_fully(int file, const void *data, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t written = write(file, (const char *)data + done, size - done);
    if (written > 0) {
      done += (size_t)written;
    } else if (written == 0 || errno != EINTR) {
      spool_failed();
      break;
    }
  }
  return done;
}

/* Whether there is room, looked at once per drain. Where the system cannot say, the write will. */
static bool spool_has_room(void) {
  struct statvfs about;
  if (!atomic_load(&spool.wanted)) return false;
  if (fstatvfs(spool.folder, &about) != 0) return true;
  if ((uint64_t)about.f_bavail * about.f_frsize >= spool.reserve_bytes) return true;
  errno = ENOSPC;
  return spool_failed();
}

static bool spool_name(uint32_t id) {
  const char *text = names.text[id];
  size_t needed = strlen(text) + 16;
  if (needed > spool.line_bytes) {
    char *line = realloc(spool.line, needed);
    if (!line) return spool_failed();
    spool.line = line;
    spool.line_bytes = needed;
  }
  int prefix = snprintf(spool.line, needed, "%u\t", id), size = prefix;
  for (; *text; text++) spool.line[size++] = *text == '\n' || *text == '\t' || *text == '\r' ? ' ' : *text;
  spool.line[size++] = '\n';
  if (write_fully(spool.names, spool.line, (size_t)size) == (size_t)size) {
    spool.names_bytes += (uint64_t)size;
    return true;
  }
  /* Half a line would join with the next attempt's. Where even this fails, the reader takes the later line. */
  return ftruncate(spool.names, (off_t)spool.names_bytes) == 0 ? false : spool_failed();
}

/* Returns how many of the records are in the file; a record is there whole or not at all. */
static size_t spool_write(const Record *records, size_t count) {
  size_t stored = 0;
  for (; spool.named < names.count; spool.named++)
    if (!spool_name(spool.named)) return 0;
  while (stored < count) {
    if (spool.bytes >= spool.file_bytes && !spool_next(spool.number + 1)) break;
    size_t fit = (spool.file_bytes - spool.bytes) / sizeof *records;
    if (fit > count - stored) fit = count - stored;
    size_t wrote = write_fully(spool.events, records + stored, fit * sizeof *records);
    size_t whole = wrote / sizeof *records;
    stored += whole;
    uint64_t end = spool.bytes + whole * sizeof *records;
    bool torn = wrote % sizeof *records && ftruncate(spool.events, (off_t)end) != 0;
    spool_moved(torn ? spool.file_bytes : end); /* a tail that cannot be cut off ends its file */
    if (whole < fit) break;
  }
  return stored;
}

#endif
