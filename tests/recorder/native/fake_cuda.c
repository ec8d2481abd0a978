/* Stand-in for libcuda: two devices, or what FAKE_CUDA_INIT says. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags) {
  const char *code = getenv("FAKE_CUDA_INIT");
  return (void)flags, code ? atoi(code) : 0;
}
int cuDeviceGetCount(int *count) { return *count = 2, 0; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuDeviceGetName(char *name, int size, int device) { return snprintf(name, (size_t)size, "Stand-in %d", device), 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = (80ull << 30) + (size_t)device, 0; }
int cuDeviceGetUuid(char *uuid, int device) {
  for (int i = 0; i < 16; i++) uuid[i] = (char)(i * 17);
  return uuid[15] = (char)device, 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 16 ? 132 : attribute == 75 ? 9 : 0;
  return attribute == 16 || attribute == 75 || attribute == 76 ? 0 : 1;
}
