#include "accrue/models/bert.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <fstream>

#include "accrue/accum/window.h"
#include "accrue/models/bert_io.h"
#include "accrue/models/safetensors.h"
#include "kernels/plain/plain_operations.h"
#include "models/support.h"
#include "support/tolerance.h"

// tests/golden/bert_golden.py compares with transformers.
namespace accrue::models {
namespace {

using accrue::testing::relative_error;
using accrue::testing::tolerance;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace models::testing;

BertOptions small_bert(Compute compute = Compute::fp64) {
  return {.layers = 2,
          .heads = 3,
          .width = 24,
          .ffn_width = 40,
          .context = 12,
          .vocab = 31,
          .compute = compute};
}

constexpr std::int64_t unpredicted = -100;

/// Samples of these lengths, a row each, about a third of whose tokens are predicted.
batch::MicroBatch masked_batch(const std::vector<std::int64_t>& lengths) {
  batch::MicroBatch micro = random_batch(small_bert(), std::ssize(lengths),
                                         *std::max_element(lengths.begin(), lengths.end()));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(17);
  const at::Tensor kept = at::rand(micro.targets.sizes(), generator, at::TensorOptions()) < 0.35;
  micro.targets.masked_fill_(kept.logical_not(), unpredicted);
  micro.weights = at::rand(micro.targets.sizes(), generator, at::TensorOptions()) + 0.5;
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const auto at = static_cast<std::int64_t>(row);
    const auto behind = [&](at::Tensor& of) { return of[at].slice(0, lengths[row]); };
    behind(micro.inputs).zero_();
    behind(micro.targets).fill_(unpredicted);
    behind(micro.weights).zero_();
    micro.targets[at][0].fill_(at % 7);
    micro.sample_ids[row] = 100 + 31 * at;
    micro.spans.push_back(
        {.sample_id = micro.sample_ids[row], .row = at, .begin = 0, .end = lengths[row]});
  }
  return micro;
}

/// Sample `row` alone, without padding and so without spans.
batch::MicroBatch alone(const batch::MicroBatch& micro, std::size_t row) {
  const SampleSpan& span = micro.spans[row];
  const auto own = [&](const at::Tensor& of) {
    return of.narrow(0, span.row, 1).slice(1, span.begin, span.end).contiguous();
  };
  return {.inputs = own(micro.inputs),
          .targets = own(micro.targets),
          .weights = own(micro.weights),
          .sample_ids = {span.sample_id}};
}

/// All samples in one row after each other, in reverse order.
batch::MicroBatch packed(const batch::MicroBatch& micro) {
  batch::MicroBatch row;
  std::vector<at::Tensor> inputs, targets, weights;
  std::int64_t end = 0;
  for (std::size_t i = micro.spans.size(); i-- > 0;) {
    const batch::MicroBatch sample = alone(micro, i);
    const std::int64_t length = sample.inputs.size(1);
    inputs.push_back(sample.inputs);
    targets.push_back(sample.targets);
    weights.push_back(sample.weights);
    row.sample_ids.push_back(sample.sample_ids[0]);
    row.spans.push_back(
        {.sample_id = sample.sample_ids[0], .row = 0, .begin = end, .end = end + length});
    end += length;
  }
  row.inputs = at::cat(inputs, 1);
  row.targets = at::cat(targets, 1);
  row.weights = at::cat(weights, 1);
  return row;
}

struct BertPass {
  double sum = 0, weight = 0;
  std::vector<at::Tensor> gradients;
};

void add(BertPass& result, Bert& model, const batch::MicroBatch& micro,
         const kernels::Operations* operations = nullptr) {
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : model.parameters()) leaves.push_back(tensor);
  ForwardContext context = batch::training_context(micro, 7, 3);
  context.operations = operations;
  const Loss loss = forward(model, micro, context);
  result.sum += loss.sum.item<double>();
  result.weight += loss.weight;
  const auto gradients = torch::autograd::grad({loss.sum}, leaves);
  if (result.gradients.empty()) result.gradients.resize(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    at::Tensor& sum = result.gradients[i];
    sum = sum.defined() ? sum + gradients[i] : gradients[i];
  }
}

/// Keys' biases have only rounding as gradient, and are compared relative to queries and values.
void expect_alike(const BertPass& actual, const BertPass& expected, double bound) {
  EXPECT_NEAR(actual.weight, expected.weight, 1e-6 * expected.weight);
  EXPECT_NEAR(actual.sum, expected.sum, bound * expected.sum);
  for (std::size_t i = 0; i < expected.gradients.size(); ++i)
    EXPECT_TRUE(accrue::testing::within(actual.gradients[i], expected.gradients[i], bound)) << i;
}

struct Precision {
  Compute compute;
  double bound;
};
const Precision precisions[] = {{Compute::fp64, 1e-12},
                                {Compute::fp32, tolerance(at::kFloat).bound(small_terms)},
                                {Compute::bf16, tolerance(at::kBFloat16).bound(small_terms)}};

TEST(Bert, PaddedAndPackedSamplesGiveWhatTheyGiveApart) {
  for (const auto& [compute, bound] : precisions)
    for (const double dropout : {0.0, 0.3}) {
      BertOptions options = small_bert(compute);
      options.dropout = dropout;
      Bert model(options);
      perturb(model);
      const batch::MicroBatch micro = masked_batch({12, 5, 1, 9});
      BertPass apart, padded, in_a_row;
      for (std::size_t i = 0; i < 4; ++i) add(apart, model, alone(micro, i));
      add(padded, model, micro);
      add(in_a_row, model, packed(micro));
      expect_alike(padded, apart, bound);
      expect_alike(in_a_row, apart, bound);
    }
}

TEST(Bert, TheComparisonSeesPaddingThatIsSeen) {
  Bert model(small_bert());
  perturb(model);
  batch::MicroBatch micro = masked_batch({12, 5, 1, 9});
  BertPass apart, wrong;
  for (std::size_t i = 0; i < 4; ++i) add(apart, model, alone(micro, i));
  micro.spans.clear();
  add(wrong, model, micro);
  EXPECT_GT(std::abs(wrong.sum - apart.sum), 1e-3 * apart.sum);
}

TEST(Bert, OperationsByAtenGiveTheSame) {
  for (const auto& [compute, bound] : precisions) {
    BertOptions options = small_bert(compute);
    options.dropout = 0.2;
    Bert model(options);
    perturb(model);
    const batch::MicroBatch micro = masked_batch({12, 5, 9});
    BertPass native, plain;
    add(native, model, micro);
    add(plain, model, micro, &kernels::plain_operations());
    expect_alike(native, plain, bound);
  }
}

TEST(Bert, LogitsAreThoseOfPredictedPositionsAlone) {
  Bert model(small_bert());
  const batch::MicroBatch micro = masked_batch({12, 5, 9});
  const std::int64_t predicted = micro.targets.ne(unpredicted).sum().item<std::int64_t>();
  const Activations hidden = run_segments(model, micro, batch::training_context(micro, 7, 3));
  EXPECT_EQ(hidden.at(0).sizes(), (std::vector<std::int64_t>{predicted, 24}));
  EXPECT_DOUBLE_EQ(model.losses().front().weight(micro),
                   micro.weights.masked_select(micro.targets.ne(unpredicted))
                       .to(at::kDouble)
                       .sum()
                       .item<double>());
}

TEST(Bert, AMicroBatchWithoutPredictionsHasGradientsOfZero) {
  for (const bool fused : {true, false}) {
    BertOptions options = small_bert();
    options.fused_loss = fused;
    Bert model(options);
    batch::MicroBatch micro = masked_batch({12, 5});
    micro.targets.fill_(unpredicted);
    BertPass result;
    add(result, model, micro);
    EXPECT_EQ(result.weight, 0);
    EXPECT_EQ(result.sum, 0);
    for (const at::Tensor& gradient : result.gradients)
      EXPECT_EQ(gradient.abs().max().item<double>(), 0);
  }
}

TEST(Bert, GradientsAddUpInTheWindow) {
  Bert model(small_bert(Compute::fp32)), exact(small_bert());
  perturb(model);
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const at::NoGradGuard no_grad;
    exact.parameters()[i].tensor.copy_(model.parameters()[i].tensor);
  }
  const batch::MicroBatch first = masked_batch({12, 5}), second = masked_batch({4, 9, 2});
  BertPass expected;
  for (const batch::MicroBatch& micro : {first, second}) add(expected, exact, micro);

  accum::Window window(
      std::make_shared<accum::GradientBuffer>(model.parameters(), accum::Accumulation::fp32));
  const auto run = [&](const MicroRef& ref) {
    const batch::MicroBatch& micro = ref.index == 0 ? first : second;
    Loss loss = forward(model, micro, batch::training_context(micro, 7, 3));
    loss.sum.backward();
    return loss;
  };
  window.set_replay(run);
  window.open(0);
  for (std::int64_t i = 0; i < 2; ++i) {
    window.begin({.index = i});
    const Loss loss = run({.index = i});
    window.commit(loss.sum.item<double>(), loss.weight);
  }
  const auto& entries = window.buffer()->entries();
  ASSERT_EQ(entries.size(), expected.gradients.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const at::Tensor sum = source_of(entries[i]).scaled_copy(1, expected.gradients[i]);
    EXPECT_TRUE(accrue::testing::within(sum, expected.gradients[i],
                                        tolerance(at::kFloat).bound(small_terms)))
        << entries[i].name;
  }
}

TEST(Bert, SegmentsAreTheChainThatTheContractNames) {
  Bert model(small_bert());
  std::vector<std::string> names;
  for (const Segment& segment : model.segments()) names.push_back(segment.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embed", "block.0", "block.1", "head"}));
}

TEST(Bert, RefusesOptionsAndIdsOutOfRangeByName) {
  const auto message = [](const std::function<void(BertOptions&)>& change) {
    BertOptions options = small_bert();
    change(options);
    return message_of([&] { const Bert model(options); });
  };
  EXPECT_THAT(message([](auto& o) { o.layers = 0; }), HasSubstr("model.layers"));
  EXPECT_THAT(message([](auto& o) { o.heads = 0; }), HasSubstr("model.heads"));
  EXPECT_THAT(message([](auto& o) { o.width = 25; }), HasSubstr("model.width=27"));
  EXPECT_THAT(message([](auto& o) { o.ffn_width = -1; }), HasSubstr("model.ffn_width"));
  EXPECT_THAT(message([](auto& o) { o.context = 0; }), HasSubstr("model.context"));
  EXPECT_THAT(message([](auto& o) { o.vocab = 0; }), HasSubstr("model.vocab"));
  EXPECT_THAT(message([](auto& o) { o.dropout = 1; }), HasSubstr("model.dropout"));
  EXPECT_THAT(message([](auto& o) { o.loss.kind = LossKind::lm; }), HasSubstr("\"mlm\""));
  EXPECT_THAT(message([](auto& o) { o.vocab = std::int64_t{1} << 40; }), HasSubstr("10^12"));
  Bert model(small_bert());
  batch::MicroBatch longer = random_batch(small_bert(), 1, 13);
  EXPECT_THAT(message_of([&] { forward(model, longer, context_of(longer)); }),
              HasSubstr("model.context"));
}

TEST(Bert, CountsTheMultiplicationsOfItsProducts) {
  const Bert model(small_bert());
  constexpr std::int64_t positions = 12, width = 24, layers = 2;
  constexpr std::int64_t matrices = positions * layers * (4 * width * width + 2 * width * 40);
  constexpr std::int64_t attention = layers * 2 * positions * positions * width;
  constexpr std::int64_t head = positions * (width * width + width * 31);
  EXPECT_EQ(model.flops_per_sample(), 6 * (matrices + attention) + 6 * head * 15 / 100);
  BertOptions usual = small_bert();
  usual.ffn_width = 0;
  EXPECT_EQ(Bert(usual).options().ffn_width, 96);
}

double loss_of(Bert& model, const batch::MicroBatch& micro) {
  return evaluate(model, micro, batch::evaluation_context(micro)).sum.item<double>();
}

/// Replaces the tensors of a folder by `tensors`.
void put_tensors(const std::filesystem::path& folder, const NamedParameters& tensors) {
  std::filesystem::remove(folder / "model.safetensors");
  write_safetensors(folder / "model.safetensors", tensors);
}

TEST(BertFolder, ComesBackAlsoInTheNamesOfOlderFiles) {
  const TemporaryFolder folder;
  Bert model(small_bert());
  perturb(model);
  save_bert_folder(folder / "a", model);
  const batch::MicroBatch micro = masked_batch({12, 5});
  BertOptions other = small_bert();
  other.layers = 7;  // the folder's shape counts
  const auto loaded = load_bert_folder(folder / "a", other);
  EXPECT_EQ(loaded->options().ffn_width, 40);
  EXPECT_EQ(loss_of(*loaded, micro), loss_of(model, micro));

  NamedParameters tensors;
  for (const auto& [name, tensor] : model.file_tensors()) {
    std::string old = name;
    for (const auto& [now, before] : {std::pair("LayerNorm.weight", "LayerNorm.gamma"),
                                      std::pair("LayerNorm.bias", "LayerNorm.beta")})
      if (old.ends_with(now)) old.replace(old.size() - std::string(now).size(), old.npos, before);
    tensors.push_back({old, tensor.clone()});
    if (name == "bert.embeddings.word_embeddings.weight")
      tensors.push_back({"cls.predictions.decoder.weight", tensor.clone()});
    if (name == "cls.predictions.bias")
      tensors.push_back({"cls.predictions.decoder.bias", tensor.clone()});
  }
  tensors.push_back({"bert.pooler.dense.weight", at::ones({24, 24})});
  tensors.push_back({"cls.seq_relationship.bias", at::ones({2})});
  tensors.push_back({"bert.embeddings.position_ids", at::arange(12)});
  put_tensors(folder / "a", tensors);
  EXPECT_EQ(loss_of(*load_bert_folder(folder / "a", small_bert()), micro), loss_of(model, micro));
}

TEST(BertFolder, MayKeepItsFirstPositionsAlone) {
  const TemporaryFolder folder;
  Bert model(small_bert());
  perturb(model);
  save_bert_folder(folder / "a", model);
  const auto shorter = load_bert_folder(folder / "a", small_bert(), 5);
  EXPECT_EQ(shorter->options().context, 5);
  const batch::MicroBatch micro = masked_batch({5, 3});
  EXPECT_EQ(loss_of(*shorter, micro), loss_of(model, micro));
  EXPECT_THAT(message_of([&] { load_bert_folder(folder / "a", small_bert(), 13); }),
              HasSubstr("13"));
}

TEST(BertFolder, RefusesWhatDoesNotFitByName) {
  const TemporaryFolder folder;
  const Bert model(small_bert());
  save_bert_folder(folder / "a", model);
  const NamedParameters good = model.file_tensors();
  const auto message = [&](const std::function<void(NamedParameters&)>& change) {
    NamedParameters tensors;
    for (const auto& [name, tensor] : good) tensors.push_back({name, tensor.clone()});
    change(tensors);
    put_tensors(folder / "a", tensors);
    return message_of([&] { load_bert_folder(folder / "a", small_bert()); });
  };
  EXPECT_THAT(message([](auto& t) { t.pop_back(); }), HasSubstr("cls.predictions.bias"));
  EXPECT_THAT(message([](auto& t) {
                t.push_back({"cls.predictions.decoder.weight", at::ones({31, 24})});
              }),
              AllOf(HasSubstr("cls.predictions.decoder.weight"), HasSubstr("tied head")));
  EXPECT_THAT(message([](auto& t) {
                t.push_back({"cls.predictions.decoder.bias", at::ones(31)});
              }),
              AllOf(HasSubstr("cls.predictions.decoder.bias"), HasSubstr("cls.predictions.bias")));
}

/// A different number of token types, and norms with a different eps.
TEST(BertFolder, ReadsAndWritesWhatIsNotUsual) {
  const TemporaryFolder folder;
  BertOptions options = small_bert();
  options.token_types = 3;
  options.norm_eps = 1e-3;
  Bert model(options);
  perturb(model);
  save_bert_folder(folder / "a", model);
  const auto loaded = load_bert_folder(folder / "a", small_bert());
  EXPECT_EQ(loaded->options().token_types, 3);
  const batch::MicroBatch micro = masked_batch({12, 5});
  EXPECT_EQ(loss_of(*loaded, micro), loss_of(model, micro));
}

TEST(BertFolder, ReadsATiedDecoderInThePlaceOfTheEmbeddingAndLeavesOutOthers) {
  const TemporaryFolder folder;
  Bert model(small_bert());
  perturb(model);
  save_bert_folder(folder / "a", model);
  NamedParameters tensors;
  for (const auto& [name, tensor] : model.file_tensors()) {
    std::string other = name;
    if (name == "bert.embeddings.word_embeddings.weight") other = "cls.predictions.decoder.weight";
    if (name == "cls.predictions.bias") other = "cls.predictions.decoder.bias";
    tensors.push_back({other, tensor.clone()});
  }
  tensors.push_back({"bert.encoder.layer.2.output.dense.bias", at::ones(24)});
  tensors.push_back({"bert.pooler.dense.weight", at::ones({24, 24})});
  put_tensors(folder / "a", tensors);
  const auto loaded = load_bert_folder(folder / "a", small_bert());
  const batch::MicroBatch micro = masked_batch({12, 5});
  EXPECT_EQ(loss_of(*loaded, micro), loss_of(model, micro));
  EXPECT_THAT(tensors_left_out(folder / "a", *loaded),
              ::testing::ElementsAre("bert.encoder.layer.2.output.dense.bias"));
}

TEST(BertFolder, RefusesConfigsOfOtherModelsByKey) {
  const TemporaryFolder folder;
  save_bert_folder(folder / "a", Bert(small_bert()));
  const std::filesystem::path config = folder / "a/config.json";
  std::ifstream in(config);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto message = [&](const std::string& before, const std::string& now) {
    std::string changed = text;
    const std::size_t at = changed.find(before);
    EXPECT_NE(at, text.npos) << before;
    std::ofstream(config) << changed.replace(at, before.size(), now);
    return message_of([&] { load_bert_folder(folder / "a", small_bert()); });
  };
  EXPECT_THAT(message("\"model_type\": \"bert\"", "\"model_type\": \"roberta\""),
              HasSubstr("model_type"));
  EXPECT_THAT(message("\"gelu\"", "\"gelu_new\""), HasSubstr("hidden_act"));
  EXPECT_THAT(message("\"type_vocab_size\": 2", "\"type_vocab_size\": 0"),
              HasSubstr("type_vocab_size"));
  EXPECT_THAT(message("\"type_vocab_size\": 2", "\"type_vocab_size\": 1"),
              HasSubstr("token_type_embeddings"));
  EXPECT_THAT(message("1e-12", "1"), HasSubstr("layer_norm_eps"));
  EXPECT_THAT(message("\"hidden_size\": 24", "\"hidden_size\": null"), HasSubstr("hidden_size"));
  EXPECT_THAT(message("\"tie_word_embeddings\": true", "\"is_causal\": true"),
              HasSubstr("is_causal"));
  EXPECT_THAT(message("\"tie_word_embeddings\": true", "\"is_decoder\": true"),
              HasSubstr("is_decoder"));
  EXPECT_THAT(
      message("\"tie_word_embeddings\": true", "\"position_embedding_type\": \"relative_key\""),
      HasSubstr("position_embedding_type"));
}

}  // namespace
}  // namespace accrue::models
