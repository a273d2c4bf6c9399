// Losses of pairs with whole models: any split, padded or packed, with accrue's kernels or plain.
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "kernels/plain/plain_operations.h"
#include "support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using accrue::testing::tolerance;
using ::testing::HasSubstr;
using namespace models::testing;

constexpr std::int64_t pairs = 5;

template <class Options>
Options with_loss(Options options, LossKind kind) {
  options.loss = {.kind = kind, .beta = 0.7};
  return options;
}

/// One sequence of a pair, before it has a row.
struct DrawnSequence {
  at::Tensor inputs, targets;
};

/// Pairs of random lengths, prompts without a label, and weights, each separate.
class DrawnPairs {
 public:
  explicit DrawnPairs(std::uint64_t seed, std::int64_t vocab, std::int64_t longest)
      : generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {
    for (std::int64_t i = 0; i < 2 * pairs; ++i)
      sequences_.push_back(draw(vocab, 1 + number(longest)));
    reference_ = at::randn({pairs, 2}, generator_, at::kDouble) - 20;
    weights_ = 1 + at::arange(pairs, at::kFloat) / 4;
  }

  /// The pairs [begin, end) with a row for each sequence.
  batch::MicroBatch padded(std::int64_t begin, std::int64_t end) const {
    std::int64_t longest = 0;
    for (std::int64_t i = 2 * begin; i < 2 * end; ++i) longest = std::max(longest, length(i));
    batch::MicroBatch micro = empty(begin, end, 2 * (end - begin), longest);
    for (std::int64_t i = 2 * begin; i < 2 * end; ++i)
      put(micro, i, {.row = i - 2 * begin, .begin = 0, .end = length(i)});
    return micro;
  }

  /// The pairs [begin, end) in one row for all of their sequences.
  batch::MicroBatch packed(std::int64_t begin, std::int64_t end) const {
    std::vector<SampleSpan> spans;
    std::int64_t at = 1;  // the place before the first one is padding
    for (std::int64_t i = 2 * begin; i < 2 * end; at += length(i++))
      spans.push_back({.sample_id = i, .row = 0, .begin = at, .end = at + length(i)});
    batch::MicroBatch micro = empty(begin, end, 1, at);
    for (std::int64_t i = 2 * begin; i < 2 * end; ++i)
      put(micro, i, spans[static_cast<std::size_t>(i - 2 * begin)]);
    micro.spans = spans;
    return micro;
  }

 private:
  std::int64_t number(std::int64_t below) {
    return at::randint(below, {1}, generator_, at::kLong).item<std::int64_t>();
  }

  DrawnSequence draw(std::int64_t vocab, std::int64_t length) {
    DrawnSequence drawn{.inputs = at::randint(vocab, {length}, generator_, at::kLong),
                        .targets = at::randint(vocab, {length}, generator_, at::kLong)};
    drawn.targets.narrow(0, 0, number(length)).fill_(-100);  // the last one counts
    return drawn;
  }

  std::int64_t length(std::int64_t sequence) const {
    return sequences_[static_cast<std::size_t>(sequence)].inputs.numel();
  }

  batch::MicroBatch empty(std::int64_t begin, std::int64_t end, std::int64_t row_count,
                          std::int64_t column_count) const {
    batch::MicroBatch micro{.inputs = at::zeros({row_count, column_count}, at::kLong),
                            .targets = at::full({row_count, column_count}, -100, at::kLong),
                            .weights = at::zeros({row_count, column_count}, at::kFloat),
                            .sample_ids = {},
                            .sequences_per_sample = 2,
                            .reference = reference_.narrow(0, begin, end - begin)};
    for (std::int64_t pair = begin; pair < end; ++pair) micro.sample_ids.push_back(pair);
    return micro;
  }

  void put(batch::MicroBatch& micro, std::int64_t sequence, const SampleSpan& place) const {
    const auto place_in = [&](const at::Tensor& of) {
      return of.select(0, place.row).slice(0, place.begin, place.end);
    };
    const DrawnSequence& drawn = sequences_[static_cast<std::size_t>(sequence)];
    place_in(micro.inputs).copy_(drawn.inputs);
    place_in(micro.targets).copy_(drawn.targets);
    place_in(micro.weights).fill_(weights_[sequence / 2]);
  }

  at::Generator generator_;
  std::vector<DrawnSequence> sequences_;
  at::Tensor reference_, weights_;
};

struct PairPass {
  double sum = 0, weight = 0;
  std::vector<double> measures;
  std::vector<at::Tensor> gradients;

  PairPass& operator+=(const PairPass& other) {
    sum += other.sum;
    weight += other.weight;
    for (std::size_t i = 0; i < measures.size(); ++i) measures[i] += other.measures[i];
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i] = gradients[i] + other.gradients[i];
    return *this;
  }
};

PairPass pass_over(Trainable& model, const batch::MicroBatch& micro,
                   const kernels::Operations* operations = nullptr) {
  ForwardContext context = batch::training_context(micro, 7, 3);
  context.operations = operations;
  const Loss loss = forward(model, micro, context);
  std::vector<at::Tensor> leaves;
  for (const NamedParameter& parameter : model.parameters()) leaves.push_back(parameter.tensor);
  return {loss.sum.item<double>(), loss.weight, loss.measures,
          torch::autograd::grad({loss.sum}, leaves)};
}

double worst_error(const PairPass& actual, const PairPass& expected) {
  double worst = std::abs(actual.sum - expected.sum) / std::abs(expected.sum);
  for (std::size_t i = 0; i < expected.gradients.size(); ++i)
    worst = std::max(worst, relative_error(actual.gradients[i], expected.gradients[i]));
  return worst;
}

template <class Model, class Options>
void expect_any_split(const Options& options, std::uint64_t seed) {
  Model model(options);
  perturb(model);
  const DrawnPairs drawn(seed, options.vocab, options.context);
  const PairPass whole = pass_over(model, drawn.padded(0, pairs));
  const double limit = tolerance(at::kDouble).bound(small_terms);
  for (const std::int64_t cut : {1, 3, 4}) {
    PairPass parts = pass_over(model, drawn.padded(0, cut));
    parts += pass_over(model, drawn.padded(cut, pairs));
    EXPECT_LE(worst_error(parts, whole), limit) << "cut at " << cut;
    EXPECT_EQ(parts.weight, whole.weight);
    for (std::size_t i = 0; i < whole.measures.size(); ++i)
      EXPECT_NEAR(parts.measures[i], whole.measures[i], 1e-12 * (1 + std::abs(whole.measures[i])));
  }
  EXPECT_LE(worst_error(pass_over(model, drawn.packed(0, pairs)), whole), limit);
  EXPECT_LE(
      worst_error(pass_over(model, drawn.padded(0, pairs), &kernels::plain_operations()), whole),
      limit);
  batch::MicroBatch mixed = drawn.padded(0, pairs);
  mixed.inputs = mixed.inputs.flip(0);
  EXPECT_GT(worst_error(pass_over(model, mixed), whole), 1e6 * limit);
}

TEST(PreferenceLoss, IsTheSameForAnySplitOfAGpt2) {
  for (const LossKind kind : {LossKind::dpo, LossKind::orpo})
    for (const std::uint64_t seed : {1, 2, 3})
      expect_any_split<Gpt2>(with_loss(small(), kind), seed);
}

TEST(PreferenceLoss, IsTheSameForAnySplitOfALlamaWithCaps) {
  for (const LossKind kind : {LossKind::dpo, LossKind::orpo})
    expect_any_split<Llama>(with_loss(small_llama_of_all(), kind), 4);
}

TEST(PreferenceLoss, DropsOutByTheSequence) {
  Gpt2Options options = with_loss(small(), LossKind::dpo);
  options.dropout = 0.2;
  expect_any_split<Gpt2>(options, 5);
}

TEST(PreferenceLoss, StaysNearInBf16) {
  Gpt2 exact(with_loss(small(), LossKind::orpo)),
      low(with_loss(small(Compute::bf16), LossKind::orpo));
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < exact.parameters().size(); ++i)
      exact.parameters()[i].tensor.copy_(low.parameters()[i].tensor);
  }
  const DrawnPairs drawn(6, small().vocab, small().context);
  const PairPass expected = pass_over(exact, drawn.padded(0, pairs));
  const PairPass found = pass_over(low, drawn.padded(0, pairs));
  EXPECT_NEAR(found.sum, expected.sum, 0.01 * expected.sum);
  for (std::size_t i = 0; i < expected.gradients.size(); ++i)
    EXPECT_LE(relative_error(found.gradients[i], expected.gradients[i]),
              tolerance(at::kBFloat16).bound(small_terms));
}

TEST(PreferenceLoss, IsEvaluatedAsItIsTrained) {
  Gpt2 model(with_loss(small(), LossKind::dpo));
  const DrawnPairs drawn(7, small().vocab, small().context);
  const batch::MicroBatch micro = drawn.padded(0, pairs);
  const PairPass trained = pass_over(model, micro);
  const Evaluated found = evaluate_losses(model, micro, batch::evaluation_context(micro));
  EXPECT_NEAR(found.losses.at(0).sum.item<double>(), trained.sum, 1e-12);
  EXPECT_EQ(found.correct, trained.measures.at(0));
  EXPECT_EQ(model.losses().front().weight(micro), trained.weight);
}

TEST(PreferenceLoss, ReadsLogProbabilitiesOfSequences) {
  Gpt2 model(with_loss(small(), LossKind::dpo));
  const DrawnPairs drawn(8, small().vocab, small().context);
  batch::MicroBatch micro = drawn.padded(0, pairs);
  micro.reference = model.sequence_log_probabilities(micro).view({-1, 2});
  const PairPass found = pass_over(model, micro);
  EXPECT_NEAR(found.sum, std::log(2) * found.weight, 1e-12) << "the model is its reference";
}

TEST(PreferenceLoss, RefusesWhatAreNoWholePairs) {
  Gpt2 model(with_loss(small(), LossKind::dpo));
  const DrawnPairs drawn(9, small().vocab, small().context);
  batch::MicroBatch half = drawn.padded(0, 2);
  half.inputs = half.inputs.narrow(0, 0, 3);
  half.targets = half.targets.narrow(0, 0, 3);
  half.sample_ids = {0, 1};
  EXPECT_THAT(message_of([&] {
                ForwardContext context = batch::training_context(half, 7, 3);
                context.sample_ids.pop_back();
                forward(model, half, context);
              }),
              HasSubstr("3 sequences of 2 samples"));
  batch::MicroBatch single = random_batch(small(), 4, 8);
  EXPECT_THAT(message_of([&] { forward(model, single, context_of(single)); }),
              HasSubstr("two sequences for each"));
  batch::MicroBatch without = drawn.padded(0, 2);
  without.reference = at::Tensor();
  EXPECT_THAT(message_of([&] { pass_over(model, without); }), HasSubstr("of a reference"));
}

}  // namespace
}  // namespace accrue::models
