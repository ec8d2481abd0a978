/* Stands in for libnvidia-ml.so.1: what NVML answers is set by the fake_* functions. As with the real one, calls before
   nvmlInit and handles from before the last nvmlInit fail. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6, MAX = 16 };
typedef struct { unsigned id; int code; double value; const char *names[3]; } Metric;
typedef struct { unsigned version, count; void *first, *second; Metric metrics[]; } MetricsGet;
typedef struct { uint32_t id, scope; int64_t at, latency; int type, code; uint64_t value; } Field;

static struct { char what[64]; int device, code; } rules[64];
static int rule_count, references, generation, inits, live_samples, calls;
static int device_count = 1, instances[MAX], util = 50, gpm = 1, all_code;
static int64_t taken;

void fake_reset(void) {
    rule_count = references = inits = live_samples = calls = all_code = 0;
    device_count = 1, util = 50, gpm = 1;
    memset(instances, 0, sizeof instances);
}
void fake_devices(int count) { device_count = count; }
void fake_instances(int device, int count) { instances[device] = count; }
void fake_gpm(int supported) { gpm = supported; }
void fake_all(int code) { all_code = code; }
void fake_util(int percent) { util = percent; }
int fake_inits(void) { return inits; }
int fake_calls(void) { return calls; }
int fake_live_samples(void) { return live_samples; }
/* From now on `what`, a function or "field:ID" or "metric:ID" ("" for all), gives `code` for the device (-1: for all). */
void fake_rule(const char *what, int device, int code) {
    strncpy(rules[rule_count].what, what, 63);
    rules[rule_count].device = device;
    rules[rule_count++].code = code;
}

static int ruled(const char *what, int device) {
    calls++;
    if (all_code) return all_code;
    for (int i = rule_count; i--;)
        if ((!*rules[i].what || !strcmp(rules[i].what, what)) && (rules[i].device < 0 || rules[i].device == device))
            return rules[i].code;
    return OK;
}
/* A handle: generation, 1 + number of the instance (0: the whole GPU), 1 + number of the GPU. */
static void *handle(int device, int instance) {
    return (void *)(uintptr_t)(generation << 16 | instance << 8 | (device + 1));
}
static int device_of(void *h) { return ((uintptr_t)h & 255) - 1; }
static int instance_of(void *h) { return (uintptr_t)h >> 8 & 255; }
static int check(const char *what, void *h) {
    int code = ruled(what, device_of(h));
    if (!references) return UNINITIALIZED;
    return code ? code : (int)((uintptr_t)h >> 16) == generation ? OK : INVALID;
}
/* For functions that name no device. */
static int check_library(const char *what) {
    int code = ruled(what, -2);
    return references ? code : UNINITIALIZED;
}
#define CHECK_LIBRARY() do { int code = check_library(__func__); if (code) return code; } while (0)
#define CHECK(h) do { int code = check(__func__, h); if (code) return code; } while (0)
#define WHOLE(h) do { CHECK(h); if (instance_of(h)) return NOT_SUPPORTED; } while (0)
#define READ(name, type, result) int name(void *h, type *out) { WHOLE(h); *out = result; return OK; }

int nvmlInitWithFlags(unsigned flags) {
    int code = ruled(__func__, -2);
    (void)flags, inits++;
    if (!code && !references++) generation++;
    return code;
}
int nvmlShutdown(void) { return references ? (references--, OK) : UNINITIALIZED; }
const char *nvmlErrorString(int code) { (void)code; return "as the stand-in was told"; }
int nvmlDeviceGetCount_v2(unsigned *out) { CHECK_LIBRARY(); *out = device_count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) { *out = handle(i, 0); CHECK(*out); return OK; }
int nvmlDeviceGetUUID(void *h, char *out, unsigned size) {
    CHECK(h);
    if (instance_of(h)) snprintf(out, size, "MIG-%d-%d", device_of(h), instance_of(h) - 1);
    else snprintf(out, size, "GPU-%d", device_of(h));
    return OK;
}
int nvmlDeviceGetName(void *h, char *out, unsigned size) { CHECK(h); snprintf(out, size, "Stand-in"); return OK; }
int nvmlDeviceGetPciInfo_v3(void *h, char *out) {
    CHECK(h);
    snprintf(out, 16, "0000:0%d:00.0", device_of(h));
    snprintf(out + 36, 32, "00000000:0%d:00.0", device_of(h));
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) { CHECK(h); *major = 9, *minor = 0; return OK; }
int nvmlDeviceGetNumGpuCores(void *h, unsigned *out) { CHECK(h); *out = 132 * 128; return OK; }
int nvmlDeviceGetAttributes_v2(void *h, unsigned *out) {
    CHECK(h);
    if (!instance_of(h)) return NOT_SUPPORTED;
    *out = 16;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *out) { CHECK(h); *out = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **out) {
    CHECK(h);
    if ((int)i >= instances[device_of(h)]) return NOT_FOUND;
    *out = handle(device_of(h), i + 1);
    return OK;
}
int nvmlDeviceGetGpuInstanceId(void *h, unsigned *out) { CHECK(h); *out = 10 + instance_of(h); return OK; }
int nvmlDeviceGetUtilizationRates(void *h, unsigned *out) {
    WHOLE(h);
    if (instances[device_of(h)]) return NOT_SUPPORTED;
    out[0] = util, out[1] = 25;
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *h, uint64_t *out) {
    CHECK(h);
    out[0] = instance_of(h) ? 1ull << 34 : 1ull << 37, out[1] = out[0] / 4 * 3, out[2] = out[0] / 4;
    return OK;
}
int nvmlDeviceGetClockInfo(void *h, unsigned kind, unsigned *out) { WHOLE(h); *out = kind == 1 ? 1980 : 2619; return OK; }
int nvmlDeviceGetTemperature(void *h, unsigned kind, unsigned *out) { WHOLE(h); (void)kind; *out = 61; return OK; }
READ(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, 4)
READ(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, 4)
READ(nvmlDeviceGetPowerUsage, unsigned, 300000)
READ(nvmlDeviceGetTotalEnergyConsumption, uint64_t, 5000)
int nvmlDeviceGetFieldValues(void *h, int count, Field *fields) {
    WHOLE(h);
    for (int i = 0; i < count; i++) {
        char what[16];
        snprintf(what, sizeof what, "field:%u", fields[i].id);
        fields[i].code = ruled(what, device_of(h));
        fields[i].type = fields[i].id == 186 ? 1 : 3;
        fields[i].value = fields[i].id == 186 ? 412345 : fields[i].id * 1000;
    }
    return OK;
}
int nvmlGpmQueryDeviceSupport(void *h, unsigned *out) { CHECK(h); out[1] = gpm; return OK; }
int nvmlGpmSampleAlloc(int64_t **out) { CHECK_LIBRARY(); live_samples++, *out = calloc(1, 8); return OK; }
int nvmlGpmSampleFree(int64_t *sample) { live_samples--, free(sample); return OK; }
int nvmlGpmSampleGet(void *h, int64_t *sample) { WHOLE(h); *sample = ++taken; return OK; }
int nvmlGpmMigSampleGet(void *h, unsigned instance, int64_t *sample) {
    CHECK(h);
    if (instance_of(h) || instance < 11) return INVALID;
    *sample = ++taken;
    return OK;
}
int nvmlGpmMetricsGet(MetricsGet *get) {
    CHECK_LIBRARY();
    if (get->version != 1 || *(int64_t *)get->first >= *(int64_t *)get->second) return INVALID;
    for (unsigned i = 0; i < get->count; i++) {
        char what[16];
        snprintf(what, sizeof what, "metric:%u", get->metrics[i].id);
        get->metrics[i].code = ruled(what, -2);
        get->metrics[i].value = get->metrics[i].id;
    }
    return OK;
}
