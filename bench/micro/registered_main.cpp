#include <benchmark/benchmark.h>

#include "accrue/memory/caching_allocator.h"
#include "registered.h"

int main(int argc, char** argv) {
  accrue::memory::install_caching_allocator();
  accrue::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
