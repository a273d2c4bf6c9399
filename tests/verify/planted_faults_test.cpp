// Faults planted in random networks: each is named, and small ones are still detected.
#include <gtest/gtest.h>

#include "accrue/verify/verify.h"
#include "random_network.h"

namespace accrue {
namespace {

using namespace accrue::testing;
using proof::Cause;
using Slices = std::vector<Batch>;
using LossOf = std::function<Loss(RandomNetwork&, const Batch&)>;
using LoopOf = std::function<void(RandomNetwork&, const Slices&)>;

constexpr int networks = 6;

class PlantedFaults : public RandomNetworks {
 protected:
  void SetUp() override { torch::manual_seed(77); }

  /// Runs `check` on random networks, each with a batch.
  void over_networks(NetworkTraits traits,
                     const std::function<void(RandomNetwork&, const Batch&)>& check) {
    for (int i = 0; i < networks; ++i) {
      SCOPED_TRACE("network " + std::to_string(i));
      RandomNetwork model(random_, traits);
      check(model, random_batch(std::uniform_int_distribution<std::int64_t>(9, 16)(random_)));
    }
  }

  void expect(Cause cause, const LossOf& loss, NetworkTraits traits = {}) {
    over_networks(traits, [&](RandomNetwork& model, const Batch& batch) {
      named(cause, verify(model, batch, loss, few_));
    });
  }

  void expect_of_loop(Cause cause, const LoopOf& loop, VerifyOptions options = few()) {
    over_networks({}, [&](RandomNetwork& model, const Batch& batch) {
      named(cause, verify_loop(model, batch, sound_loss, loop, options));
    });
  }

  static void named(Cause cause, const proof::Report& report) {
    EXPECT_EQ(to_string(report.cause), to_string(cause))
        << conclusion(report) << ::testing::PrintToString(report.evidence);
  }

  static VerifyOptions few() { return {.micro_batches = {3, 5}, .noise_draws = 1}; }
  std::mt19937 random_{77};
  VerifyOptions few_ = few();
};

double weight_of(const Slices& slices) {
  double total = 0;
  for (const Batch& micro : slices) total += micro[2].sum().item<double>();
  return total;
}

TEST_F(PlantedFaults, WeightingIsNamed) {
  expect(Cause::weighting, [](RandomNetwork& m, const Batch& micro) {
    const Loss loss = sound_loss(m, micro);
    return Loss{loss.sum / loss.weight, 1};
  });
  expect(Cause::weighting, [](RandomNetwork& m, const Batch& micro) {
    const Loss loss = sound_loss(m, micro);
    return Loss{loss.sum / loss.weight, loss.weight};
  });
  expect_of_loop(Cause::weighting, [](RandomNetwork& m, const Slices& slices) {
    for (const Batch& micro : slices) {
      const Loss loss = sound_loss(m, micro);
      (loss.sum / loss.weight / static_cast<double>(slices.size())).backward();
    }
  });
}

TEST_F(PlantedFaults, NormalizationIsNamed) {
  expect(Cause::normalization, [](RandomNetwork& m, const Batch& micro) {
    const Loss loss = sound_loss(m, micro);
    return Loss{micro[0].size(0) < 9 ? loss.sum * 1.01 : loss.sum, loss.weight};
  });
  expect_of_loop(Cause::normalization, [](RandomNetwork& m, const Slices& slices) {
    for (const Batch& micro : slices) sound_loss(m, micro).sum.backward();
  });
  expect_of_loop(Cause::scaled_twice, [](RandomNetwork& m, const Slices& slices) {
    const double total = weight_of(slices) * static_cast<double>(slices.size());
    for (const Batch& micro : slices) (sound_loss(m, micro).sum / total).backward();
  });
}

TEST_F(PlantedFaults, DropoutAndBatchNormAreNamed) {
  expect(Cause::dropout, sound_loss, {.dropout = true});
  expect(Cause::batchnorm, sound_loss, {.batch_norm = true});
}

TEST_F(PlantedFaults, ACoupledLossIsNamed) {
  expect(Cause::batch_coupled_loss, [](RandomNetwork& m, const Batch& micro) {
    const torch::Tensor output = m->forward(micro[0]);
    const torch::Tensor centred = output - 0.3 * output.mean() - micro[1];
    return Loss{(centred.square() * micro[2]).sum(), micro[2].sum().item<double>()};
  });
}

TEST_F(PlantedFaults, NondeterminismIsNamed) {
  int calls = 0;
  expect(Cause::nondeterminism, [&](RandomNetwork& m, const Batch& micro) {
    const Loss loss = sound_loss(m, micro);
    return Loss{loss.sum * (1 + 1e-4 * ++calls), loss.weight};
  });
}

TEST_F(PlantedFaults, PrecisionIsNamed) {
  // Parts lose digits that the whole keeps, but fp64 has enough for both.
  expect(Cause::precision, [](RandomNetwork& m, const Batch& micro) {
    const double shift = micro[0].size(0) < 9 ? 3e4 : 0;
    const torch::Tensor error =
        (((m->forward(micro[0]) - micro[1]) + shift) - shift).square() * micro[2];
    return Loss{error.sum(), micro[2].sum().item<double>()};
  });
  expect_of_loop(Cause::precision,
                 [](RandomNetwork& m, const Slices& slices) {
                   std::vector<torch::Tensor> sums;
                   for (const torch::Tensor& p : m->parameters())
                     sums.push_back(torch::zeros_like(p, torch::kBFloat16));
                   const double total = weight_of(slices);
                   for (const Batch& micro : slices) {
                     const auto grads =
                         torch::autograd::grad({sound_loss(m, micro).sum / total}, m->parameters());
                     for (std::size_t i = 0; i < grads.size(); ++i)
                       sums[i].add_(grads[i].to(torch::kBFloat16));
                   }
                   for (std::size_t i = 0; i < sums.size(); ++i)
                     m->parameters()[i].mutable_grad() = sums[i].to(torch::kFloat);
                 },
                 {.micro_batches = {1}, .loop_micro_batch = 1, .noise_draws = 1});
}

TEST_F(PlantedFaults, ZeroedAndSteppedWindowsAreNamed) {
  expect_of_loop(Cause::zeroed_mid_window, [](RandomNetwork& m, const Slices& slices) {
    const double total = weight_of(slices);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      if (i == slices.size() / 2) m->zero_grad();
      (sound_loss(m, slices[i]).sum / total).backward();
    }
  });
  expect_of_loop(Cause::stepped_mid_window, [](RandomNetwork& m, const Slices& slices) {
    torch::optim::SGD optimizer(m->parameters(), 1e-3);
    const double total = weight_of(slices);
    for (const Batch& micro : slices) {
      (sound_loss(m, micro).sum / total).backward();
      optimizer.step();
    }
  });
}

TEST_F(PlantedFaults, AFactorOfOneAndATenThousandthIsSeen) {
  for (const double off : {1e-2, 1e-4}) {
    int seen = 0;
    over_networks({}, [&](RandomNetwork& model, const Batch& batch) {
      const auto loss = [off](RandomNetwork& m, const Batch& micro) {
        const Loss one = sound_loss(m, micro);
        return Loss{micro[0].size(0) < 9 ? one.sum * (1 + off) : one.sum, one.weight};
      };
      seen += !verify(model, batch, loss, few_).equal;
    });
    EXPECT_EQ(seen, networks) << off;
  }
}

/// Tokens count equally, and one of 500 is left out of one micro-batch.
TEST_F(PlantedFaults, OneTokenOfFiveHundredThatIsSkippedIsSeen) {
  constexpr std::int64_t samples = 20, tokens = 25, width = 8;
  torch::nn::Sequential model(torch::nn::Embedding(vocab, width), torch::nn::Linear(width, width),
                              torch::nn::ReLU(), torch::nn::Linear(width, vocab));
  const Batch batch{torch::randint(vocab, {samples, tokens}, torch::kLong),
                    torch::randint(vocab, {samples, tokens}, torch::kLong)};
  const auto loss_with = [](bool counted) {
    return [counted](torch::nn::Sequential& m, const Batch& micro) {
      torch::Tensor losses = torch::nn::functional::cross_entropy(
          m->forward(micro[0]).flatten(0, 1), micro[1].flatten(),
          torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
      const std::int64_t kept = losses.size(0) - (losses.size(0) == 3 * tokens ? 1 : 0);
      return Loss{losses.slice(0, 0, kept).sum(),
                  static_cast<double>(counted ? losses.size(0) : kept)};
    };
  };
  const VerifyOptions threes{.micro_batches = {3}};
  EXPECT_FALSE(verify(model, batch, loss_with(true), threes).equal) << "counted, and left out";
  EXPECT_EQ(verify(model, batch, loss_with(false), threes).cause, Cause::weighting)
      << "neither counted nor added";
}

}  // namespace
}  // namespace accrue
