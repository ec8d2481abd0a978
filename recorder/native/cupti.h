/* The functions of whatever libcupti the process has. */
#ifndef TL_CUPTI_H
#define TL_CUPTI_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  CUPTI_END = 12, /* MAX_LIMIT_REACHED: no more records in the buffer */
  CUPTI_DOMAIN_DRIVER = 1,
  CUPTI_DOMAIN_RUNTIME = 2,
  ATTRIBUTE_DEVICE_POOL_LIMIT = 2, /* default 250 buffers of 3.2 MB of device memory each */
  ATTRIBUTE_ZEROED = 5, /* buffers come zeroed, so that CUPTI does not clear them on the launching thread */
  TL_MISSING = -2, /* this CUPTI has no such function */
};

static struct {
  int (*register_callbacks)(void *, void *), (*register_timestamp)(void *);
  int (*enable)(uint32_t), (*disable)(uint32_t), (*flush)(uint32_t);
  int (*next_record)(uint8_t *, size_t, uint8_t **), (*dropped)(void *, uint32_t, size_t *);
  int (*runtime_api)(uint32_t, uint8_t), (*driver_api)(uint32_t, uint8_t);
  int (*attribute)(uint32_t, size_t *, void *), (*version)(uint32_t *);
  int (*subscribe)(void **, void *, void *), (*unsubscribe)(void *);
  int (*callback_name)(uint32_t, uint32_t, const char **);
  void *subscriber;
} cupti;

static char problem[512]; /* what tl_load could not find */

static bool look_up(void *library, const char *name, void *into, bool needed) {
  void *found = dlsym(library, name);
  memcpy(into, &found, sizeof found);
  if (found || !needed) return true;
  strncpy(problem, name, sizeof problem - 1);
  return false;
}

static int cupti_load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    strncpy(problem, why ? why : path, sizeof problem - 1);
    return -1;
  }
  const struct {
    const char *name;
    void *into;
    bool needed;
  } functions[] = {
      {"cuptiActivityRegisterCallbacks", &cupti.register_callbacks, true},
      {"cuptiActivityRegisterTimestampCallback", &cupti.register_timestamp, true},
      {"cuptiActivityEnable", &cupti.enable, true},
      {"cuptiActivityDisable", &cupti.disable, true},
      {"cuptiActivityFlushAll", &cupti.flush, true},
      {"cuptiActivityGetNextRecord", &cupti.next_record, true},
      {"cuptiGetVersion", &cupti.version, true},
      {"cuptiSubscribe", &cupti.subscribe, true},
      {"cuptiUnsubscribe", &cupti.unsubscribe, true},
      {"cuptiGetCallbackName", &cupti.callback_name, true},
      {"cuptiActivitySetAttribute", &cupti.attribute, false},
      {"cuptiActivityGetNumDroppedRecords", &cupti.dropped, false},
      {"cuptiActivityEnableRuntimeApi", &cupti.runtime_api, false},
      {"cuptiActivityEnableDriverApi", &cupti.driver_api, false},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (!look_up(library, functions[i].name, functions[i].into, functions[i].needed)) return TL_MISSING;
  return 0;
}

#endif
