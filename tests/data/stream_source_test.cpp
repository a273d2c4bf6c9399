// Samples that come in order and are only kept for a while, as a source.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "accrue/data/own_source.h"
#include "data/loader.h"
#include "support/errors.h"

namespace accrue::data {
namespace {

using accrue::testing::usage_message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Indices = std::vector<std::int64_t>;

constexpr std::int64_t kStreamSize = 200;

/// A stream whose sample i is the number i, which may be shorter or longer than it states.
struct Numbers {
  std::int64_t there = kStreamSize;
  std::int64_t at_most = 7;  ///< rows at once
  std::shared_ptr<std::vector<std::int64_t>> opened = std::make_shared<std::vector<std::int64_t>>();

  StreamSamples samples(std::int64_t keep) const {
    const auto open = [*this](std::int64_t position) -> StreamSamples::Next {
      opened->push_back(position);
      return [*this, at = position](std::int64_t count) mutable {
        const std::int64_t rows = std::min({count, at_most, there - at});
        batch::MicroBatch made;
        if (rows <= 0) return made;
        made.inputs = at::arange(at, at + rows, at::kDouble).view({rows, 1});
        made.targets = at::arange(at, at + rows);
        at += rows;
        return made;
      };
    };
    return {.size = kStreamSize, .open = open, .keep = keep, .identity = "numbers"};
  }
};

Indices targets_of(const batch::MicroBatch& micro) {
  const at::Tensor targets = micro.targets.contiguous();
  const std::int64_t* first = targets.const_data_ptr<std::int64_t>();
  return {first, first + targets.numel()};
}

Indices from_to(std::int64_t begin, std::int64_t end) {
  Indices indices(static_cast<std::size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return indices;
}

TEST(StreamSource, GivesTheSamplesThatAreAskedForAndReadsOnce) {
  const Numbers numbers;
  const auto source = stream_source(numbers.samples(20));
  EXPECT_EQ(source->size(), kStreamSize);
  EXPECT_TRUE(source->reads_in_order());
  for (std::int64_t begin = 0; begin < kStreamSize; begin += 8) {
    const Indices asked = from_to(begin, std::min(begin + 8, kStreamSize));
    const batch::MicroBatch micro = source->fetch(asked);
    EXPECT_EQ(targets_of(micro), asked);
    EXPECT_EQ(micro.inputs.size(0), std::ssize(asked));
    EXPECT_EQ(micro.tokens, std::ssize(asked));
  }
  EXPECT_THAT(*numbers.opened, ElementsAre(0));
}

TEST(StreamSource, GivesWhatItKeepsAgainAndOtherwiseBeginsAnew) {
  const Numbers numbers;
  const auto source = stream_source(numbers.samples(16));
  for (std::int64_t begin = 0; begin < 40; begin += 10) source->fetch(from_to(begin, begin + 10));
  EXPECT_EQ(targets_of(source->fetch(from_to(30, 40))), from_to(30, 40));
  EXPECT_EQ(targets_of(source->fetch(Indices{39, 31})), (Indices{39, 31}));
  EXPECT_THAT(*numbers.opened, ElementsAre(0)) << "it had them still";
  EXPECT_EQ(targets_of(source->fetch(from_to(2, 5))), from_to(2, 5));
  EXPECT_THAT(*numbers.opened, ElementsAre(0, 2)) << "it had forgotten them";
}

TEST(StreamSource, GoesOnWhereAResumedRunDoesAndBeginsEachEpoch) {
  const Numbers numbers;
  const auto source = stream_source(numbers.samples(16));
  EXPECT_EQ(targets_of(source->fetch(from_to(150, 160))), from_to(150, 160));
  source->fetch(from_to(160, kStreamSize));
  EXPECT_EQ(targets_of(source->fetch(from_to(0, 4))), from_to(0, 4));
  EXPECT_THAT(*numbers.opened, ElementsAre(150, 0));
}

/// A rank reads its part of each window and skips those of others.
TEST(StreamSource, PassesOverWhatOthersTake) {
  const Numbers numbers;
  const auto source = stream_source(numbers.samples(16));
  for (std::int64_t window = 0; window < kStreamSize; window += 20)
    EXPECT_EQ(targets_of(source->fetch(from_to(window + 10, window + 20))),
              from_to(window + 10, window + 20));
  EXPECT_THAT(*numbers.opened, ElementsAre(10));
}

TEST(StreamSource, IsReadAheadWhileSamplesAreAskedForAgain) {
  const Numbers numbers;
  Loader loader(stream_source(numbers.samples(64)),
                batch::Sampler(kStreamSize, batch::Order::sequential, 0));
  std::vector<batch::Range> micro_batches;
  for (std::int64_t begin = 0; begin < kStreamSize; begin += 10)
    micro_batches.push_back({begin, begin + 10});
  loader.prefetch(micro_batches);
  for (const batch::Range& range : micro_batches) {
    EXPECT_EQ(targets_of(loader.next()), from_to(range.begin, range.end));
    EXPECT_EQ(targets_of(loader.fetch(range)), from_to(range.begin, range.end)) << "a replay";
  }
  EXPECT_THAT(*numbers.opened, ElementsAre(0));
}

TEST(StreamSource, ALengthThatIsNotTrueIsNamed) {
  const auto read_all = [](const Numbers& numbers) {
    const auto source = stream_source(numbers.samples(16));
    for (std::int64_t begin = 0; begin < kStreamSize; begin += 10)
      source->fetch(from_to(begin, begin + 10));
  };
  EXPECT_THAT(usage_message([&] { read_all({.there = 137}); }),
              HasSubstr("expected 200 samples, as stated, received an end after 137"));
  EXPECT_THAT(usage_message([&] { read_all({.there = 201}); }),
              HasSubstr("expected 200 samples, as stated, received more behind them"));
  read_all({.there = 200});
}

TEST(StreamSource, WhatCannotBeReadIsNamed) {
  const Numbers numbers;
  StreamSamples nameless = numbers.samples(4);
  nameless.identity.clear();
  EXPECT_THAT(usage_message([&] { stream_source(nameless); }), HasSubstr("no identity"));
  StreamSamples closed = numbers.samples(4);
  closed.open = nullptr;
  EXPECT_THAT(usage_message([&] { stream_source(closed); }), HasSubstr("no function"));
  EXPECT_THAT(usage_message([&] { stream_source(numbers.samples(0)); }),
              HasSubstr("twice the samples of a batch"));
  StreamSamples greedy = numbers.samples(4);
  greedy.open = [](std::int64_t) {
    return [](std::int64_t count) {
      return batch::MicroBatch{.inputs = at::zeros({count + 1, 1})};
    };
  };
  EXPECT_THAT(usage_message([&] { stream_source(greedy)->fetch(Indices{0}); }),
              HasSubstr("giving no more than are asked for"));
  StreamSamples uneven = numbers.samples(4);
  uneven.open = [](std::int64_t) {
    return [](std::int64_t) {
      return batch::MicroBatch{.inputs = at::zeros({2, 1}), .targets = at::zeros({1})};
    };
  };
  EXPECT_THAT(usage_message([&] { stream_source(uneven)->fetch(Indices{0}); }),
              HasSubstr("targets with a row for each of 2 samples"));
}

TEST(StreamSource, WhatCannotBePutTogetherIsNamed) {
  const auto message = [](const std::function<void(batch::MicroBatch&)>& add) {
    StreamSamples more = Numbers().samples(4);
    more.open = [add](std::int64_t) {
      return [add](std::int64_t count) {
        batch::MicroBatch made{.inputs = at::zeros({count, 1})};
        add(made);
        return made;
      };
    };
    return usage_message([&] { stream_source(more)->fetch(Indices{0}); });
  };
  EXPECT_THAT(message([](batch::MicroBatch& made) { made.own = batch::OwnBatch::of(1); }),
              HasSubstr("a batch of the program's own type"));
  EXPECT_THAT(message([](batch::MicroBatch& made) { made.spans.resize(1); }), HasSubstr("spans"));
  EXPECT_THAT(message([](batch::MicroBatch& made) {
                made.reference = at::zeros({4, 2});
              }),
              HasSubstr("a reference's log-probabilities"));
  EXPECT_THAT(message([](batch::MicroBatch& made) { made.sequences_per_sample = 2; }),
              HasSubstr("samples of several sequences"));
}

}  // namespace
}  // namespace accrue::data
