// What is stored of a quotient has 16 bits.
DEVICE float quotient(float x, Divisor y) { return x * y.inverse * y.scale; }
