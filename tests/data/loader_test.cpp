#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "folder.h"

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using testing::Folder;
using testing::values;

// Sample i is the token i; one index can be made to fail, and every fetch is counted.
class CountingSource : public Source {
 public:
  explicit CountingSource(std::int64_t size, std::int64_t failing = -1)
      : size_(size), failing_(failing) {}
  std::int64_t size() const override { return size_; }
  std::int64_t vocab() const override { return 0; }
  std::int64_t tokens(std::int64_t) const override { return 1; }
  std::optional<std::int64_t> uniform_tokens() const override { return 1; }
  std::string fingerprint() const override { return "counting"; }
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    ++started_;
    batch::MicroBatch micro;
    micro.inputs = at::empty({std::ssize(indices), 1}, at::kLong);
    for (std::int64_t row = 0; row < std::ssize(indices); ++row) {
      const std::int64_t index = indices[static_cast<std::size_t>(row)];
      if (index == failing_) throw std::runtime_error("sample " + std::to_string(index));
      micro.inputs[row][0] = index;
    }
    micro.targets = micro.inputs + 1;
    micro.tokens = std::ssize(indices);
    return micro;
  }
  std::int64_t started() const { return started_; }

 private:
  std::int64_t size_;
  std::int64_t failing_;
  mutable std::atomic<std::int64_t> started_ = 0;
};

Loader sequential(std::shared_ptr<const Source> source, std::size_t ahead = 2) {
  const batch::Sampler sampler(source->size(), batch::Order::sequential, 0);
  return Loader(std::move(source), sampler, ahead);
}

TEST(Loader, FetchesTheSamplesOfTheOrdinals) {
  const auto source = std::make_shared<CountingSource>(10);
  const batch::Sampler sampler(10, batch::Order::shuffle, 3);
  const Loader loader(source, sampler);
  const batch::MicroBatch micro = loader.fetch({18, 22});
  EXPECT_THAT(micro.sample_ids, ElementsAre(18, 19, 20, 21));
  EXPECT_THAT(values(micro.inputs), ElementsAre(sampler.sample(18), sampler.sample(19),
                                                sampler.sample(20), sampler.sample(21)));
  EXPECT_EQ(micro.tokens, 4);
  EXPECT_EQ(values(loader.fetch({18, 22}).inputs), values(micro.inputs));
}

TEST(Loader, GivesEachSampleOfAnEpochInItsPlaceHoweverItIsSplit) {
  constexpr std::int64_t samples = 1000;
  const auto source = std::make_shared<CountingSource>(samples);
  const batch::Sampler sampler(samples, batch::Order::shuffle, 3);
  const Loader loader(source, sampler);
  std::vector<std::int64_t> expected;
  for (std::int64_t draw = 0; draw < samples; ++draw) expected.push_back(sampler.sample(draw));
  for (const std::int64_t size : {1, 7, 50, 1000}) {
    std::vector<std::int64_t> given;
    for (const batch::Range part : batch::split({0, samples}, size))
      std::ranges::copy(values(loader.fetch(part).inputs), std::back_inserter(given));
    EXPECT_EQ(given, expected) << size;
  }
}

TEST(Loader, GivesMicroBatchesInTheOrderAskedForAndAsFetchDoes) {
  const Folder folder;
  const std::shared_ptr<const Source> source = testing::open(
      folder.write("a.txt", testing::packed<std::uint8_t>(testing::counting_ids(5000, 256))), 7,
      Format::text);
  Loader loader(source, batch::Sampler(source->size(), batch::Order::shuffle, 11), 3);
  const auto ranges = batch::split({500, 1400}, 8);
  loader.prefetch({ranges.begin(), ranges.begin() + 50});
  loader.prefetch({ranges.begin() + 50, ranges.end()});
  for (const batch::Range& range : ranges) {
    const batch::MicroBatch ahead = loader.next(), again = loader.fetch(range);
    EXPECT_EQ(ahead.sample_ids, again.sample_ids);
    EXPECT_EQ(ahead.sample_ids.front(), range.begin);
    EXPECT_TRUE(at::equal(ahead.inputs, again.inputs));
    EXPECT_TRUE(at::equal(ahead.targets, again.targets));
    EXPECT_EQ(ahead.tokens, again.tokens);
  }
}

TEST(Loader, ThrowsAnErrorInItsPlaceAndGoesOn) {
  Loader loader = sequential(std::make_shared<CountingSource>(10, 4));
  loader.prefetch(batch::split({0, 10}, 2));
  EXPECT_THAT(loader.next().sample_ids, ElementsAre(0, 1));
  EXPECT_THAT(loader.next().sample_ids, ElementsAre(2, 3));
  try {
    loader.next();
    FAIL() << "sample 4 was read";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "sample 4");
  }
  EXPECT_THAT(loader.next().sample_ids, ElementsAre(6, 7));
  EXPECT_THAT(loader.next().sample_ids, ElementsAre(8, 9));
}

TEST(Loader, RefusesNextWhereNothingWasAskedFor) {
  Loader loader = sequential(std::make_shared<CountingSource>(10));
  EXPECT_THROW(loader.next(), Error);
  loader.prefetch({{0, 2}});
  loader.next();
  EXPECT_THROW(loader.next(), Error);
}

TEST(Loader, StaysWithinItsBound) {
  constexpr std::int64_t ahead = 3;
  const auto source = std::make_shared<CountingSource>(60);
  Loader loader = sequential(source, ahead);
  loader.prefetch(batch::split({0, 60}, 1));
  while (source->started() < ahead) std::this_thread::yield();
  for (std::int64_t taken = 0; taken < 60; ++taken) {
    // Time for a loader without a bound to run ahead; the bound itself needs none.
    if (taken < 5) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LE(source->started(), taken + ahead);
    EXPECT_THAT(loader.next().sample_ids, ElementsAre(taken));
  }
}

TEST(Loader, ForgetsWhatWasCancelled) {
  const auto source = std::make_shared<CountingSource>(1000);
  Loader loader = sequential(source);
  for (std::int64_t round = 0; round < 50; ++round) {
    loader.prefetch(batch::split({0, 40}, 4));
    if (round % 2 == 0) loader.next();
    loader.cancel();
    loader.prefetch({{100 + round, 102 + round}});
    EXPECT_THAT(loader.next().sample_ids, ElementsAre(100 + round, 101 + round));
    EXPECT_THROW(loader.next(), Error);
  }
}

TEST(Loader, EndsCleanlyWhateverIsLeft) {
  for (int taken = 0; taken < 20; ++taken) {
    const auto source = std::make_shared<CountingSource>(100, 7);
    Loader loader = sequential(source);
    loader.prefetch(batch::split({0, 100}, 1));
    for (int i = 0; i < std::min(taken, 7); ++i) loader.next();
  }
  sequential(std::make_shared<CountingSource>(1));
}

/// Its samples are available when the gate is opened.
class GatedSource final : public CountingSource {
 public:
  explicit GatedSource(std::shared_future<void> gate)
      : CountingSource(10), gate_(std::move(gate)) {}
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    gate_.wait();
    return CountingSource::fetch(indices);
  }

 private:
  std::shared_future<void> gate_;
};

TEST(Loader, CountsTheTimeThatItsCallersWait) {
  constexpr std::chrono::milliseconds shut(20);
  std::promise<void> gate;
  Loader loader = sequential(std::make_shared<GatedSource>(gate.get_future().share()));
  loader.prefetch({{0, 1}, {1, 2}});
  EXPECT_EQ(loader.waited_seconds(), 0) << "its own thread waits, and nobody else";
  const Stopwatch watch;
  const std::jthread opener([&] {
    std::this_thread::sleep_for(shut);
    gate.set_value();
  });
  loader.fetch({2, 3});
  const double fetched = loader.waited_seconds();
  EXPECT_GT(fetched, 0);
  EXPECT_LE(fetched, watch.seconds());
  loader.next();
  EXPECT_GE(loader.waited_seconds(), fetched);
  EXPECT_LE(loader.waited_seconds(), watch.seconds());
}

TEST(Loader, RefusesASamplerOfOtherDataAndNoRoom) {
  const auto source = std::make_shared<CountingSource>(10);
  EXPECT_THROW(Loader(source, batch::Sampler(11, batch::Order::shuffle, 0)), Error);
  EXPECT_THROW(Loader(source, batch::Sampler(10, batch::Order::shuffle, 0), 0), Error);
}

}  // namespace
}  // namespace accrue::data
