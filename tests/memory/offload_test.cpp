#include "accrue/memory/offload.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "accrue/memory/offload_passes.h"
#include "allocator_fixture.h"
#include "memory/state_file.h"
#include "memory/state_mover.h"
#include "memory/system_blocks.h"
#include "memory/system_memory.h"
#include "support/skip.h"

namespace accrue::memory {
namespace {

constexpr std::int64_t kStateMebi = 64;

/// A tensor of the state with values that differ from byte to byte.
at::Tensor state_tensor(std::int64_t mebi) {
  const MemoryTagScope tag(MemoryTag::parameters);
  at::Tensor made = at::empty({mebi * kMebi / 4}, at::kInt);
  return made.copy_(at::arange(made.numel(), at::kInt));
}

bool has_values(const at::Tensor& tensor) {
  return tensor.equal(at::arange(tensor.numel(), at::kInt));
}

/// The folder in which the tests run: the temporary one may lie in memory.
std::filesystem::path disk() { return std::filesystem::current_path(); }

/// Makes every file without a name in the folder empty, so that none of its pages can be read.
void lose_nameless_files(const std::filesystem::path& folder) {
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(open, closed).string();
    if (closed || !target.starts_with(folder.string() + "/") || !target.ends_with(" (deleted)"))
      continue;
    ASSERT_EQ(::truncate(open.path().c_str(), 0), 0);
  }
}

using OffloadTest = AllocatorTest;

TEST_F(OffloadTest, NamesADiskThatGivesNothingBackToAComputation) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touches_what_is_lost = [] {
    const OffloadScope scope(disk());
    const at::Tensor state = state_tensor(4);
    leave_memory();
    lose_nameless_files(disk());
    has_values(state);
  };
  EXPECT_EXIT(
      touches_what_is_lost(), ::testing::ExitedWithCode(1),
      "error: .*memory.offload.*expected a disk that reads and writes, received .*cannot be "
      "read; try .*--resume");
}

TEST_F(OffloadTest, PlacesStateInTheFileAndOtherTensorsInMemory) {
  const OffloadScope scope(disk());
  const at::Tensor state = state_tensor(4), other = bytes_tensor(4 * kMebi);
  EXPECT_TRUE(is_offloaded(state));
  EXPECT_TRUE(is_offloaded(state.narrow(0, 7, 9)));
  EXPECT_FALSE(is_offloaded(other));
  EXPECT_FALSE(is_offloaded(at::Tensor()));
  EXPECT_EQ(offload_usage().state, 4 * kMebi);
  EXPECT_EQ(live(), 4 * kMebi) << "offloaded tensors do not count in the budget";
}

TEST_F(OffloadTest, KeepsSmallTensorsInMemory) {
  const OffloadScope scope(disk());
  const MemoryTagScope tag(MemoryTag::optimizer);
  EXPECT_FALSE(is_offloaded(at::zeros({100})));
}

TEST_F(OffloadTest, ValuesOutliveTheirTimeOutsideMemory) {
  const OffloadScope scope(disk());
  const at::Tensor state = state_tensor(kStateMebi);
  const std::int64_t before = mapped_file_bytes();
  leave_memory();
  EXPECT_LT(mapped_file_bytes(), before - (kStateMebi - 4) * kMebi);
  EXPECT_TRUE(has_values(state));
  EXPECT_GE(offload_usage().most_in_memory, (kStateMebi - 4) * kMebi);
}

TEST_F(OffloadTest, WritesOfAnyMomentStay) {
  const OffloadScope scope(disk());
  const std::vector<at::Tensor> parts = state_tensor(kStateMebi).chunk(8);
  for (int round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < parts.size(); ++i) {
      keep_in_memory({&parts[i], 1}, {&parts[(i + 1) % parts.size()], 1});
      at::Tensor(parts[i]).add_(1);
    }
  leave_memory();
  const at::Tensor whole = at::cat(parts);
  EXPECT_TRUE(whole.equal(at::arange(whole.numel(), at::kInt) + 3));
}

TEST_F(OffloadTest, MovesWhatIsAskedForAndAllElseOut) {
  constexpr std::size_t bytes = std::size_t{8} << 20, kMoreThanReadAhead = std::size_t{64} << 20;
  const auto file = std::make_shared<StateFile>(disk());
  StateMover mover(file);
  std::array<char*, 3> blocks{};
  std::array<FileRange, 3> ranges;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = static_cast<char*>(file->take(bytes));
    std::memset(blocks[i], static_cast<int>(i + 1), bytes);
    ranges[i] = file->range_of(blocks[i], bytes);
    // The system reads ahead, and around what is read.
    file->take(kMoreThanReadAhead);
  }
  const auto wait_for = [&](StateMover::Request request) {
    mover.request(std::move(request));
    mover.wait();
  };
  wait_for({{ranges[1]}, {}});
  EXPECT_EQ(resident_pages_bytes(blocks[1], bytes), bytes);
  EXPECT_EQ(resident_pages_bytes(blocks[0], bytes) + resident_pages_bytes(blocks[2], bytes), 0U);
  wait_for({{ranges[2]}, {ranges[0]}});
  EXPECT_EQ(resident_pages_bytes(blocks[0], bytes) + resident_pages_bytes(blocks[2], bytes),
            2 * bytes);
  EXPECT_EQ(resident_pages_bytes(blocks[1], bytes), 0U);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    EXPECT_EQ(std::count(blocks[i], blocks[i] + bytes, static_cast<char>(i + 1)),
              static_cast<std::ptrdiff_t>(bytes));
}

/// A StateFile of one block, with a mover.
class OneBlock {
 public:
  static constexpr std::int64_t kBytes = 8 * kMebi;

  OneBlock()
      : file_(std::make_shared<StateFile>(disk())),
        mover_(file_),
        data_(static_cast<char*>(file_->take(kSize))) {}
  bool counts_reads() const { return file_->counts_reads(); }
  bool counts_writes() const { return file_->counts_writes(); }
  Transfers reading() const { return mover_.reading(); }
  Transfers writing() const { return mover_.writing(); }
  std::int64_t written() const { return mover_.written_bytes(); }
  double wait_seconds() const { return mover_.wait_seconds(); }
  void change(int value) { std::memset(data_, value, kSize); }
  void bring_in() { request({{file_->range_of(data_, kSize)}, {}}); }
  void take_out() { request({}); }
  /// The bytes that one change of all values and taking them out wrote.
  std::int64_t written_by_change(int value) {
    const std::int64_t before = written();
    change(value);
    take_out();
    return written() - before;
  }

 private:
  static constexpr auto kSize = static_cast<std::size_t>(kBytes);
  void request(StateMover::Request request) {
    mover_.request(std::move(request));
    mover_.wait();
  }

  std::shared_ptr<StateFile> file_;
  StateMover mover_;
  char* data_;
};

/// The process may read other files meanwhile, such as its own code.
TEST_F(OffloadTest, ReadsCountByRequestAndByAccess) {
  constexpr std::int64_t mebi = 32;
  const OffloadScope scope(disk());
  if (!offload_usage().read) return testing::not_possible_here("no count of reads");
  const at::Tensor state = state_tensor(mebi);
  const auto read_by = [&](const auto& use) {
    const std::int64_t before = offload_usage().read.value_or(0);
    use();
    return offload_usage().read.value_or(0) - before;
  };
  const auto access = [&] { EXPECT_TRUE(has_values(state)); };
  leave_memory();
  EXPECT_GE(read_by(access), mebi * kMebi);
  EXPECT_LT(read_by(access), mebi * kMebi / 2) << "it was in memory already";
  leave_memory();
  const auto access_after_request = [&] {
    keep_in_memory({&state, 1});
    access();
  };
  EXPECT_GE(read_by(access_after_request), mebi * kMebi);
}

/// The kernel may write changed pages by itself in between, but hardly in each of three rounds.
TEST_F(OffloadTest, WritesCountIfValuesWereChanged) {
  OneBlock block;
  if (!block.counts_writes()) return testing::not_possible_here("no count of changed pages");
  std::int64_t most = 0;
  for (int round = 1; round <= 3; ++round) {
    const std::int64_t written = block.written_by_change(round);
    EXPECT_LE(written, OneBlock::kBytes);
    most = std::max(most, written);
  }
  EXPECT_EQ(most, OneBlock::kBytes);
  const std::int64_t before = block.written();
  block.bring_in();
  block.take_out();
  EXPECT_EQ(block.written(), before) << "what was only read is not written";
}

TEST_F(OffloadTest, WaitingCountsFromTheRequestUntilItIsFulfilled) {
  OneBlock block;
  EXPECT_EQ(block.wait_seconds(), 0);
  block.change(1);
  const Stopwatch watch;
  block.take_out();
  const double waited_to_write = block.wait_seconds();
  EXPECT_GT(waited_to_write, 0);
  block.bring_in();
  EXPECT_GT(block.wait_seconds(), waited_to_write);
  EXPECT_LE(block.wait_seconds(), watch.seconds());
}

TEST_F(OffloadTest, LargeTransfersCountWithTheirTime) {
  OneBlock block;
  if (!block.counts_reads()) return testing::not_possible_here("no count of reads");
  block.change(1);
  const Stopwatch watch;
  block.take_out();
  block.bring_in();
  const Transfers read = block.reading(), written = block.writing();
  EXPECT_GE(read.bytes, OneBlock::kBytes);
  EXPECT_GT(read.seconds, 0);
  EXPECT_EQ(written.bytes > 0, written.seconds > 0);
  EXPECT_LE(read.seconds + written.seconds, watch.seconds());
  block.bring_in();
  EXPECT_EQ(block.reading().bytes, read.bytes) << "it was in memory already";
}

TEST_F(OffloadTest, UsageHasTheTransfersOfTheScope) {
  EXPECT_EQ(offload_usage().written, 0);
  const OffloadScope scope(disk());
  const at::Tensor state = state_tensor(4);
  leave_memory();
  const OffloadUsage left = offload_usage();
  EXPECT_GT(left.wait_seconds, 0);
  keep_in_memory({&state, 1});
  leave_memory();
  EXPECT_EQ(offload_usage().written, left.written);
  EXPECT_GT(offload_usage().wait_seconds, left.wait_seconds);
}

TEST_F(OffloadTest, AFileKeepsToItsBudget) {
  StateFile file(disk(), 3 * kMebi);
  const auto mebibytes = [](std::size_t count) { return count << 20U; };
  void* const first = file.take(mebibytes(2));
  file.take(mebibytes(1));
  try {
    file.take(4096);
    ADD_FAILURE() << "it took more";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_NE(error.received().find("memory.offload_budget, which allows 3"), std::string::npos);
    EXPECT_NE(error.expected().find("at least 3"), std::string::npos);
  }
  file.give_back(first);
  EXPECT_EQ(file.take(mebibytes(2)), first) << "its space is used again";
}

TEST_F(OffloadTest, TensorsBeyondTheBudgetAreRefused) {
  // A state_tensor() takes twice its size while it is filled.
  const OffloadScope scope(disk(), 5 * kMebi);
  const at::Tensor fits = state_tensor(2);
  EXPECT_THROW(state_tensor(2), Error);
  EXPECT_TRUE(has_values(fits));
  EXPECT_EQ(offload_usage().state, 2 * kMebi);
}

TEST_F(OffloadTest, DiscardedValuesAreZerosAndItsNeighboursStay) {
  const OffloadScope scope(disk());
  const at::Tensor state = state_tensor(4);
  const at::Tensor middle = state.narrow(0, 1001, 500'000);
  discard(middle);
  EXPECT_TRUE(middle.equal(at::zeros_like(middle)));
  const at::Tensor expected = at::arange(state.numel(), at::kInt);
  EXPECT_TRUE(state.narrow(0, 0, 1001).equal(expected.narrow(0, 0, 1001)));
  EXPECT_TRUE(state.narrow(0, 501'001, 9).equal(expected.narrow(0, 501'001, 9)));
}

TEST_F(OffloadTest, DiscardsOnlyWhatIsDense) {
  const OffloadScope scope(disk());
  const at::Tensor state = state_tensor(1).view({512, 512});
  discard(state.t());
  EXPECT_EQ(state.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_THROW(discard(state.narrow(1, 0, 3)), Error);
}

TEST_F(OffloadTest, ZerosAreZerosIfLibtorchFillsNewMemory) {
  const OffloadScope scope(disk());
  const MemoryTagScope tag(MemoryTag::optimizer);
  at::globalContext().setDeterministicAlgorithms(true, false);
  const at::Tensor made = zeros({kMebi / 4}, at::kFloat);
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_TRUE(is_offloaded(made));
  EXPECT_EQ(made.count_nonzero().item<std::int64_t>(), 0);
}

TEST_F(OffloadTest, LeavesOtherTensorsAlone) {
  const at::Tensor resident = state_tensor(1);
  const OffloadScope scope(disk());
  keep_in_memory({&resident, 1});
  leave_memory();
  discard(resident);
  EXPECT_TRUE(has_values(resident));
}

TEST_F(OffloadTest, ZerosAreZerosAlsoInReusedBlocks) {
  const OffloadScope scope(disk());
  const MemoryTagScope tag(MemoryTag::optimizer);
  const void* const place = [] { return state_tensor(2).const_data_ptr(); }();
  const at::Tensor made = zeros({kMebi / 2}, at::kFloat);
  EXPECT_EQ(made.const_data_ptr(), place);
  EXPECT_TRUE(made.equal(at::zeros_like(made)));
  EXPECT_TRUE(is_offloaded(made));
}

TEST_F(OffloadTest, TensorsOutliveTheScope) {
  std::optional<OffloadScope> scope(disk());
  at::Tensor state = state_tensor(2);
  scope.reset();
  EXPECT_FALSE(is_offloading());
  EXPECT_FALSE(is_offloaded(state_tensor(1)));
  EXPECT_TRUE(has_values(state));
  state = at::Tensor();
  const OffloadScope again(disk());
  EXPECT_EQ(offload_usage().state, 0);
}

TEST_F(OffloadTest, LeavesNoFileBehind) {
  const std::filesystem::path folder = disk() / "offload_test_leaves_nothing";
  std::filesystem::create_directory(folder);
  const OffloadScope scope(folder);
  const at::Tensor state = state_tensor(1);
  EXPECT_TRUE(std::filesystem::remove(folder)) << "it is empty";
}

TEST_F(OffloadTest, RefusesFoldersThatAreNoDisk) {
  const auto message = [](const char* folder) -> std::string {
    try {
      const OffloadScope scope(folder);
    } catch (const Error& error) {
      return error.exit_code() == 2 ? error.what() : "another error";
    }
    return "no error";
  };
  EXPECT_NE(message("/dev/shm").find("lies in memory itself (tmpfs)"), std::string::npos);
  EXPECT_NE(message("/no such folder").find("a folder on a disk"), std::string::npos);
  EXPECT_FALSE(is_offloading());
}

TEST_F(OffloadTest, OneScopeAtATime) {
  const OffloadScope scope(disk());
  EXPECT_THROW(OffloadScope{disk()}, Error);
  EXPECT_TRUE(is_offloading());
}

TEST(StateFileRanges, AreMergedAndComplemented) {
  const std::vector<FileRange> ranges = merged({{8, 10}, {0, 2}, {1, 4}, {6, 6}, {10, 12}});
  EXPECT_EQ(ranges, (std::vector<FileRange>{{0, 4}, {8, 12}}));
  EXPECT_EQ(rest_of(ranges, 20), (std::vector<FileRange>{{4, 8}, {12, 20}}));
  EXPECT_EQ(rest_of({}, 5), (std::vector<FileRange>{{0, 5}}));
  EXPECT_EQ(rest_of({{0, 5}}, 5), std::vector<FileRange>{});
}

TEST_F(OffloadTest, BlocksThatAreGivenBackAreJoined) {
  StateFile file(disk());
  const auto take = [&](std::int64_t pages) {
    return file.take(static_cast<std::size_t>(pages) * 4096);
  };
  const std::array<void*, 3> blocks{take(4), take(4), take(4)};
  const std::size_t end = file.end();
  for (const std::size_t i : {0U, 2U, 1U}) EXPECT_TRUE(file.give_back(blocks[i]));
  EXPECT_FALSE(file.give_back(blocks[1]));
  EXPECT_EQ(take(12), blocks[0]);
  EXPECT_EQ(file.end(), end);
}

}  // namespace
}  // namespace accrue::memory
