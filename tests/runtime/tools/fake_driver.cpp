// Stands in for NVIDIA's two libraries: one made-up device, so that a machine
// without a GPU can test how weft asks. FAKE_DRIVER_BROKEN makes cuInit fail.
#include <cstdlib>
#include <cstring>

extern "C" {

int cuInit(unsigned) { return std::getenv("FAKE_DRIVER_BROKEN") ? 999 : 0; }
int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetName(char* name, int, int) {
  std::strcpy(name, "Made-up GPU");
  return 0;
}
int cuDeviceGetAttribute(int* value, int which, int) {
  *value = which == 75 ? 9 : which == 76 ? 0 : which;
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{141} << 30;
  return 0;
}
int cuDeviceGetUuid(unsigned char* bytes, int) {
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<unsigned char>(0xf0 + i);
  return 0;
}
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* version, unsigned) {
  std::strcpy(version, "580.1");
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  static int simulated;
  *device = &simulated;
  return std::strcmp(uuid, "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
}
int nvmlDeviceGetMaxClockInfo(void*, unsigned which, unsigned* mhz) {
  *mhz = which == 1 ? 1980 : 3201;
  return 0;
}
}
