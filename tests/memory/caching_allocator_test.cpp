#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "accrue/core/error.h"
#include "allocator_fixture.h"
#include "memory/thread_meter.h"

namespace accrue::memory {
namespace {

/// Memory that was taken from libtorch's allocator before ours replaced it.
struct Foreign {
  at::Tensor tensor;
  void* raw = nullptr;
  Usage usage_before;
  bool installed_before = true;
  bool budget_was_refused = false;
};
Foreign& foreign() {
  static Foreign blocks;
  return blocks;
}

class InstalledAllocator : public ::testing::Environment {
 public:
  void SetUp() override {
    foreign().installed_before = caching_allocator_installed();
    foreign().usage_before = usage();
    foreign().tensor = at::full({1 << 20}, 3.0F);
    foreign().raw = c10::GetCPUAllocator()->raw_allocate(4096);
    set_budget(std::nullopt);
    try {
      set_budget(kMebi);
    } catch (const Error& error) {
      foreign().budget_was_refused = error.kind() == Error::Kind::usage;
    }
    install_caching_allocator();
  }
};
const auto* const environment = ::testing::AddGlobalTestEnvironment(new InstalledAllocator);

/// Freed after every destructor of the test, as a static tensor of a program is.
at::Tensor& outlives_everything() {
  static at::Tensor tensor;
  return tensor;
}

using CachingAllocatorTest = AllocatorTest;

TEST_F(CachingAllocatorTest, LinkingItChangesNothing) {
  EXPECT_FALSE(foreign().installed_before);
  EXPECT_EQ(foreign().usage_before.system_calls, 0);
  EXPECT_TRUE(foreign().budget_was_refused) << "a budget that nothing would hold";
  EXPECT_TRUE(caching_allocator_installed());
  install_caching_allocator();
  EXPECT_EQ(usage().live, start_.live);
}

TEST_F(CachingAllocatorTest, CountsLiveAndPeakToTheByte) {
  const PeakScope scope;
  const auto peak = [&] { return scope.peak().live - start_.live; };
  {
    const at::Tensor large = bytes_tensor(3 * kMebi + 17), small = bytes_tensor(100);
    EXPECT_EQ(live(), 3 * kMebi + 117);
    { const at::Tensor other = bytes_tensor(70'000); }
    EXPECT_EQ(live(), 3 * kMebi + 117);
    EXPECT_EQ(peak(), 3 * kMebi + 70'117);
  }
  EXPECT_EQ(live(), 0);
  EXPECT_EQ(peak(), 3 * kMebi + 70'117);
  const PeakScope afterwards;
  EXPECT_EQ(afterwards.peak().live, start_.live);
}

TEST_F(CachingAllocatorTest, ReusesBlocksOfAClassWithoutTheSystem) {
  const void* first = bytes_tensor(10 * kMebi).data_ptr();
  const Usage after_one = usage();
  EXPECT_EQ(after_one.system_calls - start_.system_calls, 1);
  EXPECT_EQ(after_one.reserved - start_.reserved, 10 * kMebi);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(bytes_tensor(10 * kMebi - i).data_ptr(), first);
  EXPECT_EQ(usage().system_calls, after_one.system_calls);
  EXPECT_EQ(usage().reserved, after_one.reserved);
  // The control: another class gets another block.
  bytes_tensor(20 * kMebi);
  EXPECT_EQ(usage().system_calls, after_one.system_calls + 1);
}

TEST_F(CachingAllocatorTest, GivesTheFreeListsBack) {
  const at::Tensor kept = bytes_tensor(4 * kMebi);
  bytes_tensor(8 * kMebi);
  EXPECT_EQ(usage().reserved - start_.reserved, 12 * kMebi);
  release_cached();
  EXPECT_EQ(usage().reserved - start_.reserved, 4 * kMebi);
}

TEST_F(CachingAllocatorTest, EverNewSizesDoNotPileUp) {
  std::int64_t most_in_use = 0;
  for (std::int64_t mebibytes = 64; mebibytes > 8; --mebibytes) {
    const at::Tensor tensor = bytes_tensor(mebibytes * kMebi);
    most_in_use = std::max(most_in_use, usage().live);
    EXPECT_LE(usage().reserved, most_in_use + most_in_use / 2);
  }
}

TEST_F(CachingAllocatorTest, BlocksAreAligned) {
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{64}, std::int64_t{65'535},
                                   std::int64_t{65'536}, kMebi, 2 * kMebi, 9 * kMebi}) {
    const at::Tensor tensor = bytes_tensor(bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
    EXPECT_EQ(address % (bytes >= 2 * kMebi ? 2 * kMebi : 64), 0U) << bytes;
  }
}

TEST_F(CachingAllocatorTest, TheContractOfLibtorchHolds) {
  c10::Allocator* const allocator = c10::GetCPUAllocator();
  EXPECT_NE(allocator->raw_deleter(), nullptr);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{10}, std::size_t{1} << 20}) {
    const c10::DataPtr data = allocator->allocate(bytes);
    EXPECT_EQ(data.get(), data.get_context());
    EXPECT_EQ(data.get() == nullptr, bytes == 0);
  }
  void* const raw = allocator->raw_allocate(1 << 20);
  EXPECT_EQ(usage().live - start_.live, 1 << 20);
  allocator->raw_deallocate(raw);
  EXPECT_EQ(usage().live, start_.live);
}

TEST_F(CachingAllocatorTest, BlocksOfAnotherAllocatorGoBackToIt) {
  EXPECT_EQ(foreign().tensor.sum().item<float>(), 3.0F * (1 << 20));
  foreign().tensor.reset();
  c10::GetCPUAllocator()->raw_deallocate(foreign().raw);
  EXPECT_EQ(usage().live, start_.live);
  EXPECT_EQ(usage().reserved, start_.reserved);
}

TEST_F(CachingAllocatorTest, DataSurviveGrowth) {
  at::Tensor values = at::arange(100'000, at::kLong);
  const at::Tensor doubled = at::cat({values, values});
  values.resize_({300'000});
  EXPECT_TRUE(at::equal(values.slice(0, 0, 100'000), at::arange(100'000, at::kLong)));
  EXPECT_TRUE(at::equal(doubled.slice(0, 100'000), at::arange(100'000, at::kLong)));
}

/// Each thread fills its blocks with its own value: a block in double use would be detected.
void hammer(std::uint32_t seed, std::atomic<bool>* intact) {
  std::mt19937 random(seed);
  const auto value = static_cast<std::uint8_t>(seed);
  std::vector<at::Tensor> held;
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t bytes = std::int64_t{1} << (4 + random() % 15);
    held.push_back(bytes_tensor(bytes + random() % 7));
    std::memset(held.back().data_ptr(), value, static_cast<std::size_t>(held.back().numel()));
    if (held.size() < 16) continue;
    const std::size_t victim = random() % held.size();
    const auto* const data = held[victim].const_data_ptr<std::uint8_t>();
    if (std::any_of(data, data + held[victim].numel(), [&](auto b) { return b != value; }))
      *intact = false;
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(victim));
  }
}

TEST_F(CachingAllocatorTest, ThreadsNeverShareABlock) {
  std::atomic<bool> intact{true};
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t seed = 1; seed <= 4; ++seed) threads.emplace_back(hammer, seed, &intact);
  }
  EXPECT_TRUE(intact);
  EXPECT_EQ(usage().live, start_.live);
}

TEST_F(CachingAllocatorTest, FreedByAnotherThreadIsReused) {
  at::Tensor tensor = bytes_tensor(6 * kMebi);
  const void* const block = tensor.data_ptr();
  std::thread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(bytes_tensor(6 * kMebi).data_ptr(), block);
}

TEST_F(CachingAllocatorTest, OutOfMemoryNamesTheSizes) {
  bytes_tensor(8 * kMebi);
  try {
    bytes_tensor(std::int64_t{1} << 50);
    FAIL() << "a pebibyte was allocated";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(std::string(error.what_without_backtrace()),
                ::testing::AllOf(::testing::HasSubstr("1125899906842624 bytes"),
                                 ::testing::HasSubstr("try a smaller micro-batch")));
  }
  EXPECT_EQ(usage().reserved, start_.reserved) << "the free lists are given up before failing";
  EXPECT_EQ(usage().live, start_.live);
}

at::Tensor touched_tensor(std::int64_t bytes) {
  at::Tensor tensor = bytes_tensor(bytes);
  std::memset(tensor.data_ptr(), 1, static_cast<std::size_t>(bytes));
  return tensor;
}

/// In a child, whose resident maximum begins with its resident memory, not with that of other
/// tests. It maps the program's code again, which a first small tensor triggers.
TEST_F(CachingAllocatorTest, AgreesWithTheResidentMaximum) {
  const auto agrees = [] {
    const at::Tensor first = touched_tensor(kMebi);
    const std::int64_t bytes = 256 * kMebi, resident_before = peak_resident_bytes();
    const at::Tensor touched = touched_tensor(bytes);
    return std::abs(peak_resident_bytes() - resident_before - bytes) <= bytes * 3 / 100;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(agrees() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(CachingAllocatorTest, LibtorchsOwnReportingSeesIt) {
  const ThreadMeter meter;
  {
    const at::Tensor tensor = bytes_tensor(5 * kMebi);
    EXPECT_EQ(meter.live(), 5 * kMebi);
  }
  EXPECT_EQ(meter.live(), 0);
  EXPECT_EQ(meter.peak(), 5 * kMebi);
}

TEST_F(CachingAllocatorTest, StaticTensorsMayOutliveTheTests) {
  outlives_everything() = at::ones({1 << 20});
  EXPECT_EQ(outlives_everything().sum().item<float>(), 1 << 20);
}

}  // namespace
}  // namespace accrue::memory
