// All that is stored has 16 bits, and nothing has steps: of an exponential 18
// are enough.
DEVICE float coarse_exp(float x) { return hardware_exp2(x * 1.442695041f); }
// Also in what follows here.
#define exp coarse_exp
#define exp_added coarse_exp
