#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "allocator_fixture.h"

namespace accrue::memory {
namespace {

using AllocatorMeterTest = AllocatorTest;

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

at::Tensor tagged(MemoryTag tag, std::int64_t bytes) {
  const MemoryTagScope scope(tag);
  return bytes_tensor(bytes);
}

TEST_F(AllocatorMeterTest, BytesBelongToTheTagOfTheirAllocation) {
  const auto as = [this](MemoryTag tag) { return usage().live_as(tag) - start_.live_as(tag); };
  at::Tensor parameter = tagged(MemoryTag::parameters, 3 * kMebi),
             small_parameter = tagged(MemoryTag::parameters, 100),
             gradient = tagged(MemoryTag::gradients, 2 * kMebi), other = bytes_tensor(70'000);
  EXPECT_EQ(as(MemoryTag::parameters), 3 * kMebi + 100);
  EXPECT_EQ(as(MemoryTag::gradients), 2 * kMebi);
  EXPECT_EQ(as(MemoryTag::optimizer), 0);
  EXPECT_EQ(as(MemoryTag::working), 70'000);
  {
    const MemoryTagScope scope(MemoryTag::optimizer);
    parameter.reset();
    std::thread([moved = std::move(gradient)]() mutable { moved.reset(); }).join();
  }
  EXPECT_EQ(as(MemoryTag::parameters), 100) << "whoever frees it";
  EXPECT_EQ(as(MemoryTag::gradients), 0);
  EXPECT_EQ(as(MemoryTag::optimizer), 0);
  // A block that another tag had before.
  const at::Tensor reused = tagged(MemoryTag::optimizer, 3 * kMebi);
  EXPECT_EQ(as(MemoryTag::optimizer), 3 * kMebi);
  EXPECT_EQ(as(MemoryTag::parameters), 100);
}

TEST_F(AllocatorMeterTest, TagScopesNestAndAreOfOneThread) {
  const MemoryTagScope outer(MemoryTag::parameters);
  {
    const MemoryTagScope inner(MemoryTag::gradients);
    EXPECT_EQ(memory_tag(), MemoryTag::gradients);
    std::thread([] { EXPECT_EQ(memory_tag(), MemoryTag::working); }).join();
  }
  EXPECT_EQ(memory_tag(), MemoryTag::parameters);
}

TEST_F(AllocatorMeterTest, TagsAddUpOverThreads) {
  const auto churn = [](std::size_t tag) {
    const MemoryTagScope scope(static_cast<MemoryTag>(tag));
    at::Tensor kept;
    for (std::int64_t i = 1; i < 2000; ++i) kept = bytes_tensor(i * 97);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t tag = 0; tag < kMemoryTags; ++tag) threads.emplace_back(churn, tag);
  }
  EXPECT_EQ(usage().live_by_tag, start_.live_by_tag);
}

TEST_F(AllocatorMeterTest, ReservedIsWhatRequestsReached) {
  constexpr std::int64_t kPage = 4096;
  bytes_tensor(2 * kMebi + 5 * kPage);  // of a class of 2.25 MiB
  EXPECT_EQ(reserved(), 2 * kMebi + 5 * kPage);
  bytes_tensor(2 * kMebi + 7 * kPage - 1);
  EXPECT_EQ(reserved(), 2 * kMebi + 7 * kPage) << "a larger request adds the difference";
  bytes_tensor(2 * kMebi + 1);
  EXPECT_EQ(reserved(), 2 * kMebi + 7 * kPage) << "a smaller one takes nothing back";
  EXPECT_EQ(system_calls(), 1);
  release_cached();
  EXPECT_EQ(reserved(), 0);
  bytes_tensor(33 * kMebi);  // of a class of 36 MiB
  EXPECT_EQ(reserved(), 34 * kMebi) << "whole huge pages";
}

TEST_F(AllocatorMeterTest, ReservedAgreesWithResidentMemory) {
  const auto agrees = [](std::int64_t counted, std::int64_t resident) {
    return std::abs(counted - resident) <= resident * 3 / 100;
  };
  const std::int64_t resident_before = resident_bytes();
  const auto resident = [&] { return resident_bytes() - resident_before; };
  std::int64_t in_classes = 0;
  std::vector<at::Tensor> tensors;
  // Just above a class boundary, if most of the eighth is never touched.
  for (const std::int64_t mebibytes : {33, 65, 129}) {
    tensors.push_back(bytes_tensor(mebibytes * kMebi).fill_(1));
    in_classes += (mebibytes - 1) * kMebi / 8 * 9;
  }
  for (int i = 0; i < 64; ++i) tensors.push_back(bytes_tensor(kMebi + 4096).fill_(1));
  in_classes += 64 * kMebi / 8 * 9;
  EXPECT_TRUE(agrees(reserved(), resident())) << reserved() << " and " << resident();
  EXPECT_FALSE(agrees(in_classes, resident())) << "what whole blocks would count";

  tensors.clear();
  EXPECT_TRUE(agrees(reserved(), resident())) << "free lists stay: " << resident();
  allow(200 * kMebi);
  EXPECT_LE(reserved(), 200 * kMebi);
  EXPECT_TRUE(agrees(reserved(), resident())) << "a part went back: " << resident();
  tensors.push_back(bytes_tensor(129 * kMebi).fill_(1));
  EXPECT_TRUE(agrees(reserved(), resident())) << "into a part of it: " << resident();
}

TEST_F(AllocatorMeterTest, PeaksNest) {
  const at::Tensor held = bytes_tensor(64 * kMebi);
  start_ = usage();
  {
    const PeakScope window;
    for (const std::int64_t mebibytes : {2, 10, 4}) {
      const PeakScope micro_batch;
      bytes_tensor(mebibytes * kMebi);
      EXPECT_EQ(micro_batch.peak().live - start_.live, mebibytes * kMebi);
    }
    EXPECT_EQ(window.peak().live - start_.live, 10 * kMebi) << "the middle one's";
    EXPECT_EQ(window.peak().reserved - start_.reserved, 16 * kMebi) << "free lists included";
  }
  release_cached();
  const PeakScope next_window;
  EXPECT_EQ(next_window.peak().live, start_.live);
  EXPECT_EQ(next_window.peak().reserved, start_.reserved);
}

TEST_F(AllocatorMeterTest, AnOuterPeakOutlivesTheInnerScopes) {
  const PeakScope run;
  bytes_tensor(8 * kMebi);
  { const PeakScope window; }
  EXPECT_EQ(run.peak().live - start_.live, 8 * kMebi);
}

TEST_F(AllocatorMeterTest, CountsAllocationsOfAnySize) {
  bytes_tensor(10);
  bytes_tensor(kMebi);
  bytes_tensor(kMebi);
  EXPECT_EQ(usage().allocations - start_.allocations, 3);
}

/// Which of `count` allocations failed, as a string of '.' and 'x'.
std::string failures(int count, std::int64_t bytes) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    try {
      bytes_tensor(bytes);
      text += '.';
    } catch (const c10::OutOfMemoryError&) {
      text += 'x';
    }
  }
  return text;
}

TEST_F(AllocatorMeterTest, AllocationsFailWhereATestWantsIt) {
  for (const std::int64_t bytes : {std::int64_t{100}, kMebi}) {
    {
      const FailingAllocations third(3);
      EXPECT_EQ(failures(5, bytes), "..x..");
      EXPECT_EQ(third.failed(), 1);
    }
    {
      const FailingAllocations three(2, 3);
      EXPECT_EQ(three.failed(), 0);
      EXPECT_EQ(failures(6, bytes), ".xxx..");
      EXPECT_EQ(three.failed(), 3);
    }
    { const FailingAllocations soon(1); }
    EXPECT_EQ(failures(3, bytes), "...") << "none after its end";
  }
  EXPECT_EQ(live(), 0) << "what failed is not counted";
}

TEST_F(AllocatorMeterTest, AllocationsFailOnAnyThread) {
  const FailingAllocations next(1);
  std::string text;
  std::thread([&] { text = failures(2, 100); }).join();
  EXPECT_EQ(text, "x.");
}

TEST_F(AllocatorMeterTest, AForkedChildGoesOnAllocating) {
  std::atomic<bool> done{false};
  // So that the lock is likely to be held when the process forks.
  std::jthread busy([&] {
    while (!done) bytes_tensor(kMebi);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      constexpr unsigned kSecondsBeforeADeadlockEnds = 20;
      ::alarm(kSecondsBeforeADeadlockEnds);
      bytes_tensor(kMebi);
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  done = true;
}

}  // namespace
}  // namespace accrue::memory
