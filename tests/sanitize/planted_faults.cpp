// Deliberate faults, each of which a sanitizer must report. planted_faults NAME
#include <ATen/Parallel.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

namespace accrue::testing {
namespace {

constexpr int kCount = 4;
constexpr std::uintptr_t kNoMultipleOfFour = 2;

/// Unknown to the compiler, so that it neither warns of a fault nor removes it.
volatile int unknown_zero = 0;
volatile int sink = 0;

void heap_overflow() {
  const auto numbers = std::make_unique<int[]>(kCount);
  sink = numbers[static_cast<std::size_t>(kCount + unknown_zero)];
}

void use_after_free() {
  auto numbers = std::make_unique<int[]>(kCount);
  const int* kept = numbers.get();
  numbers.reset();
  sink = kept[unknown_zero];
}

void stack_overflow() {
  int numbers[kCount] = {};
  const volatile int* first = numbers;
  sink = first[kCount + unknown_zero];
}

/// Like heap_overflow, in the second thread of a parallel loop, where the first one has no fault.
void chunk_overflow() {
  at::set_num_threads(2);
  const auto numbers = std::make_unique<int[]>(kCount);
  at::parallel_for(0, 2, 1, [&](std::int64_t begin, std::int64_t) {
    if (at::get_thread_num() == 1)
      sink = numbers[static_cast<std::size_t>(kCount + begin - 1 + unknown_zero)];
  });
}

void signed_overflow() { sink = std::numeric_limits<int>::max() - unknown_zero + 1; }

void misaligned() {
  alignas(int) char bytes[2 * sizeof(int)] = {};
  sink = *reinterpret_cast<const int*>(bytes + kNoMultipleOfFour +
                                       static_cast<std::size_t>(unknown_zero));
}

void library_assertion() {
  const std::vector<int> numbers(kCount);
  sink = numbers[static_cast<std::size_t>(kCount + unknown_zero)];
}

void nothing() { sink = unknown_zero; }

struct Fault {
  std::string_view name;
  void (*run)();
};

constexpr Fault faults[] = {
    {"heap_overflow", heap_overflow},         {"use_after_free", use_after_free},
    {"stack_overflow", stack_overflow},       {"chunk_overflow", chunk_overflow},
    {"signed_overflow", signed_overflow},     {"misaligned", misaligned},
    {"library_assertion", library_assertion}, {"nothing", nothing}};

}  // namespace
}  // namespace accrue::testing

int main(int count, char** words) {
  const std::string_view name = count == 2 ? words[1] : "";
  for (const auto& fault : accrue::testing::faults) {
    if (fault.name != name) continue;
    fault.run();
    std::puts("went on");
    return 0;
  }
  std::fputs("error: planted_faults: expected the name of a fault, received another\n", stderr);
  return 2;
}
