// A driver's management library for tests: GPU 0 is whole, 1 has fallen off the bus, 2 is divided into two.
// While the file LOST exists, no GPU answers. Numbers are those of nvml.h.

#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };

struct card { const char *uuid, *name, *bus; unsigned minor, is_divided, instance; unsigned long long mib; };

static struct card cards[] = {
    {"GPU-a", "NVIDIA H200", "00000000:3B:00.0", 1, 0, 0, 143771},
    {"GPU-b", "NVIDIA H200", "00000000:5E:00.0", 0, 0, 0, 143771},
    {"GPU-c", "NVIDIA A100", "00000000:AF:00.0", 2, 1, 0, 40960},
    {"MIG-1", "NVIDIA A100 MIG 1g.5gb", "00000000:AF:00.0", 2, 0, 1, 4864},
    {"MIG-9", "NVIDIA A100 MIG 1g.5gb+me", "00000000:AF:00.0", 2, 0, 9, 4864},
};

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct memory { unsigned version; unsigned long long total, reserved, free, used; };
struct process { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; };

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "580.1", length); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct card **card) {
    *card = &cards[index];
    return index == 1 ? GPU_IS_LOST : OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct card **card) {
    if (access(LOST, F_OK) == 0) return GPU_IS_LOST;
    for (unsigned index = 0; index < 5; index++)
        if (strcmp(cards[index].uuid, uuid) == 0) { *card = &cards[index]; return OK; }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(struct card *card, char *text, unsigned length) { strncpy(text, card->uuid, length); return OK; }
int nvmlDeviceGetName(struct card *card, char *text, unsigned length) { strncpy(text, card->name, length); return OK; }
int nvmlDeviceGetMinorNumber(struct card *card, unsigned *minor) { *minor = card->minor; return OK; }

int nvmlDeviceGetPciInfo_v3(struct card *card, struct pci *pci) {
    strncpy(pci->bus_id, card->bus, sizeof pci->bus_id);
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(struct card *card, struct memory *memory) {
    memory->total = card->mib << 20;
    memory->used = 512ull << 20;
    return OK;
}

int nvmlDeviceGetMigMode(struct card *card, unsigned *current, unsigned *pending) {
    *current = *pending = card->is_divided;
    return card->minor == 2 ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxMigDeviceCount(struct card *card, unsigned *count) { *count = 7; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(struct card *card, unsigned index, struct card **part) {
    *part = index == 0 ? &cards[3] : &cards[4];
    return index == 0 || index == 3 ? OK : NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(struct card *card, unsigned *id) { *id = card->instance; return OK; }
int nvmlDeviceGetComputeInstanceId(struct card *card, unsigned *id) { *id = 0; return OK; }

int nvmlDeviceGetUtilizationRates(struct card *card, unsigned rates[2]) {
    rates[0] = 87;
    return card->instance ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetTemperature(struct card *card, int sensor, unsigned *degrees) { *degrees = 41; return OK; }

int nvmlDeviceGetComputeRunningProcesses_v3(struct card *card, unsigned *count, struct process *processes) {
    if (*count < 2) { *count = 2; return INSUFFICIENT_SIZE; }
    processes[0].pid = 4242;
    processes[1].pid = 17;
    *count = 2;
    return OK;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct card *card, unsigned *count, struct process *processes) {
    *count = 0;
    return OK;
}
