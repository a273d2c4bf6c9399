#include "accrue/memory/offload.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "accrue/memory/offload_passes.h"
#include "allocator_fixture.h"
#include "memory/state_file.h"
#include "memory/system_memory.h"

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

/// Where the tests run; the temporary folder may lie in memory.
std::filesystem::path disk() { return std::filesystem::current_path(); }

using OffloadTest = AllocatorTest;

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

TEST_F(OffloadTest, TakesAllButTheNeededPartOutOfMemory) {
  const OffloadScope scope(disk());
  const at::Tensor needed = state_tensor(8), other = state_tensor(kStateMebi);
  const std::int64_t with_both = mapped_file_bytes();
  keep_in_memory({&needed, 1});
  at::Tensor(needed).add_(0);
  leave_memory();  // waits for the request, too
  EXPECT_LT(mapped_file_bytes(), with_both - kStateMebi * kMebi);
  EXPECT_TRUE(has_values(needed));
  EXPECT_TRUE(has_values(other));
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
    return file.take(static_cast<std::size_t>(pages) * 4096, MemoryTag::parameters);
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
