/* Of NVIDIA's management library what is asked about a device's memory: 16 GiB, of which 6 are in use. */
#define GIB (1ull << 30)

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned number, void **device) { return *device = (void *)1, number != 0; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *told)
{
    told[0] = 16 * GIB, told[1] = 10 * GIB, told[2] = 6 * GIB;
    return device != (void *)1;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, unsigned long long *told)
{
    told[1] = 16 * GIB, told[2] = GIB, told[3] = 10 * GIB, told[4] = 5 * GIB;
    return device != (void *)1;
}
