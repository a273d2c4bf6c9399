#include "distributed/group/device_engine.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "distributed/group/connect_with.h"
#include "distributed/ranks.h"
#include "support/errors.h"

namespace accrue::distributed {
namespace {

using namespace std::chrono_literals;
using accrue::testing::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kWorld = 2;

/// Work of a device that lasts until the test marks it as done. Its wait() returns at once, like
/// that of an engine whose collectives are in order with a stream.
class WorkOnDevice final : public c10d::Work {
 public:
  explicit WorkOnDevice(std::shared_ptr<std::atomic<bool>> done) : done_(std::move(done)) {}
  bool isCompleted() override { return *done_; }
  bool wait(std::chrono::milliseconds) override { return true; }

 private:
  std::shared_ptr<std::atomic<bool>> done_;
};

/// Replaces NCCL's if there is no GPU: records its calls.
class EngineOfTest final : public c10d::Backend {
 public:
  EngineOfTest(const NcclRequest& request, std::shared_ptr<std::atomic<bool>> done)
      : Backend(request.rank, request.world), done_(std::move(done)) {}
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions&) override {
    if (tensors.front().scalar_type() == at::kShort) throw std::runtime_error("no such dtype");
    asked.emplace_back("sum of " + std::to_string(tensors.front().numel()));
    return c10::make_intrusive<WorkOnDevice>(done_);
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>&,
                                           const c10d::AllgatherOptions&) override {
    asked.emplace_back("gather of " + std::to_string(outputs.front().size()));
    return c10::make_intrusive<WorkOnDevice>(done_);
  }

  std::vector<std::string> asked;

 private:
  std::shared_ptr<std::atomic<bool>> done_;
};

/// A tensor that is neither in host memory nor anywhere else.
at::Tensor elsewhere(std::int64_t count, at::ScalarType dtype = at::kFloat) {
  return at::empty({count}, at::dtype(dtype).device(at::kMeta));
}

/// Runs ranks as threads, each with one of the test's engines.
class DeviceEngineTest : public ::testing::Test {
 protected:
  struct Rank {
    std::shared_ptr<Group> group;
    std::vector<NcclRequest> requests;
    c10::intrusive_ptr<EngineOfTest> engine;
    std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(true);
  };

  template <class Run>
  void run_ranks(std::chrono::milliseconds timeout, const Run& run) {
    const accrue::testing::ReservedPort port;
    const auto run_one = [&](int number) {
      Rank& rank = ranks_[static_cast<std::size_t>(number)];
      const MakeDeviceEngine make = [&rank](const NcclRequest& request) {
        rank.requests.push_back(request);
        rank.engine = c10::make_intrusive<EngineOfTest>(request, rank.done);
        return rank.engine;
      };
      const Launch launch{.rank = number,
                          .world = kWorld,
                          .master_addr = "127.0.0.1",
                          .master_port = port.number()};
      rank.group = connect_with(make, launch, {.timeout = timeout});
      run(number, rank);
      joined_.arrive_and_wait();  // rank 0 hosts the store of both
      rank.group.reset();
    };
    std::vector<std::jthread> threads;
    for (int number = 0; number < kWorld; ++number) threads.emplace_back(run_one, number);
  }

  std::array<Rank, kWorld> ranks_;
  std::latch joined_{kWorld};
};

TEST_F(DeviceEngineTest, TensorsOfADeviceGoThroughItAndOthersThroughGloo) {
  run_ranks(30s, [](int number, Rank& rank) {
    at::Tensor near = at::full({3}, number + 1.0);
    rank.group->start_sum(near, "a sum")->wait();
    EXPECT_TRUE(near.equal(at::full({3}, 3.0))) << near;
    EXPECT_TRUE(rank.requests.empty()) << "an engine that nobody needed";

    rank.group->start_sum(elsewhere(5), "a sum")->wait();
    EXPECT_EQ(rank.group->all_gather(elsewhere(4)).sizes(), (std::vector<std::int64_t>{2, 4}));
    ASSERT_EQ(rank.requests.size(), 1U);
    EXPECT_EQ(rank.requests.front().rank, number);
    EXPECT_EQ(rank.requests.front().world, kWorld);
    EXPECT_EQ(rank.requests.front().timeout, 30s);
    EXPECT_THAT(rank.engine->asked, ElementsAre("sum of 5", "gather of 2"));
  });
}

TEST_F(DeviceEngineTest, ItsRanksFindEachOtherByAStoreOfItsOwn) {
  run_ranks(30s, [](int number, Rank& rank) {
    rank.group->start_sum(elsewhere(1), "a sum")->wait();
    const auto store = rank.requests.front().store;
    if (number == 0) store->set("id", std::vector<std::uint8_t>{7});
    EXPECT_THAT(store->get("id"), ElementsAre(7));
  });
}

TEST_F(DeviceEngineTest, WhatADeviceNeverEndsIsGivenUpAfterTheTimeout) {
  run_ranks(1500ms, [](int, Rank& rank) {
    *rank.done = false;
    const auto work = rank.group->start_sum(elsewhere(1), "the sum of gradients");
    EXPECT_FALSE(work->is_done());
    EXPECT_THAT(error_of([&] { work->wait(); }, Error::Kind::runtime),
                AllOf(HasSubstr("the sum of gradients"), HasSubstr("dist.timeout is 1.5")));
  });
}

TEST_F(DeviceEngineTest, ARankThatFailsIsNamedByOneThatWaitsForADevice) {
  run_ranks(60s, [](int number, Rank& rank) {
    *rank.done = false;
    const auto work = rank.group->start_sum(elsewhere(1), "the sum of gradients");
    if (number == 1) return rank.group->fail("its GPU fell off the bus");
    EXPECT_THAT(error_of([&] { work->wait(); }, Error::Kind::runtime),
                AllOf(HasSubstr("rank 1 failed: its GPU fell off the bus"),
                      Not(HasSubstr("dist.timeout"))));
  });
}

TEST_F(DeviceEngineTest, WhatItRefusesIsTold) {
  run_ranks(60s, [](int, Rank& rank) {
    EXPECT_THAT(error_of([&] { rank.group->start_sum(elsewhere(1, at::kShort), "a sum"); }),
                HasSubstr("no such dtype"));
  });
}

/// In a build for GPUs the library is loaded here, too, until c10d itself looks for a GPU.
TEST(NcclEngine, IsRefusedWithWhatToDoWhereItCannotBe) {
  const NcclRequest request{.store = c10::make_intrusive<c10d::HashStore>(), .timeout = 1s};
  if (!has_nccl()) {
    EXPECT_THAT(accrue::testing::usage_message([&] { make_nccl_engine(request); }),
                AllOf(HasSubstr("dist.backend = \"nccl\""), HasSubstr("a build with NCCL"),
                      HasSubstr("\"gloo\"")));
    return;
  }
  EXPECT_THAT([&] { make_nccl_engine(request); },
              ::testing::ThrowsMessage<std::exception>(HasSubstr("no GPUs found")));
}

}  // namespace
}  // namespace accrue::distributed
