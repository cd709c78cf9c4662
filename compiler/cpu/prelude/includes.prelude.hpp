#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace {
