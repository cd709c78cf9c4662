// The prelude's sections: CUDA C++ as it is printed.
#pragma once

namespace weft {

extern const char* const cuda_packs;
extern const char* const cuda_halves;
extern const char* const cuda_coarse;
extern const char* const cuda_coarse_quotient;
extern const char* const cuda_divisor;
extern const char* const cuda_quotient;
extern const char* const cuda_share;
extern const char* const cuda_hardware_exp2;
extern const char* const cuda_exp_below;
extern const char* const cuda_folds;
extern const char* const cuda_arg_folds;
extern const char* const cuda_exponentials;
extern const char* const cuda_spread;
extern const char* const cuda_block;
extern const char* const cuda_columns;
extern const char* const cuda_cluster;
extern const char* const cuda_team;
extern const char* const cuda_ring;
extern const char* const cuda_stream;
extern const char* const cuda_scan;
extern const char* const cuda_windows;
extern const char* const cuda_strips;

}  // namespace weft
