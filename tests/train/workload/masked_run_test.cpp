// loss.kind = "mlm": the hidden tokens depend on the draw, and runs of a bert work like others.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "accrue/models/bert.h"
#include "accrue/models/bert_io.h"
#include "core/atomic_file.h"
#include "data/fetch.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "support/errors.h"
#include "support/tolerance.h"
#include "train/recorder.h"
#include "train/run/evaluate_files.h"
#include "train/tiny_run.h"
#include "train/workload/token_masking.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Recorder;
using testing::SignalAfter;

class MaskedRun : public testing::TinyRun {
 protected:
  Config masked(const std::string& out) const {
    Config c = config(out);
    c.model.kind = ModelKind::bert;
    c.loss.kind = models::LossKind::mlm;
    c.precision.accumulate = accum::Accumulation::fixed;
    c.run.eval_every = Duration{3, Duration::Unit::steps};
    return c;
  }
  /// Lines of 1 to 14 letters instead of the text.
  Config of_lines(const std::string& out) const {
    std::ofstream lines(folder_ / "lines.jsonl");
    for (int i = 0; i < 60; ++i)
      lines << nlohmann::json{{"text", std::string("abcdefghijklmnop").substr(0, 1 + i % 14)}}
            << "\n";
    Config c = masked(out);
    c.data.train = {(folder_ / "lines.jsonl").string()};
    c.batch = {.samples = 9, .micro = 2};
    c.optim.kind = OptimizerKind::sgd;
    return c;
  }
  std::shared_ptr<Recorder> trained(const Config& c) const {
    Trainer trainer(c);
    auto recorder = std::make_shared<Recorder>();
    trainer.add_observer(recorder);
    trainer.run();
    return recorder;
  }
  std::string refusal(const Config& c) const {
    return usage_message([&] { open_workload(c); });
  }
};

TEST_F(MaskedRun, LearnsAndGoesOnToTheBitAfterASignal) {
  Config straight = masked("straight");
  straight.model.dropout = 0.1;
  straight.run.steps = 30;
  const auto recorder = trained(straight);
  const auto mean_of = [&](std::size_t first) {
    double sum = 0;
    for (std::size_t i = first; i < first + 5; ++i) sum += recorder->steps.at(i).loss.value();
    return sum / 5;
  };
  EXPECT_NEAR(recorder->steps.front().loss.value(), std::log(257), 0.5);
  EXPECT_LT(mean_of(25), 0.75 * mean_of(0));

  Config broken = straight;
  broken.run.out = (folder_ / "broken").string();
  Trainer first(broken);
  first.add_observer(std::make_shared<SignalAfter>(50, SIGINT));
  EXPECT_TRUE(first.run().interrupted);
  Trainer(broken).run({.resume = true});
  expect_same_bits(parameters_of(broken), parameters_of(straight));
}

/// The worst over all parameters, relative to the largest element of each.
double worst_error(const NamedParameters& actual, const NamedParameters& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, accrue::testing::relative_error(actual[i].tensor, expected[i].tensor));
  return worst;
}

TEST_F(MaskedRun, AnySplitPackingAndRecomputationEndAlike) {
  Config whole = of_lines("whole");
  whole.precision.compute = models::Compute::fp64;
  whole.precision.accumulate = accum::Accumulation::fp32;
  whole.model.dropout = 0.1;
  whole.batch.micro = 9;
  trained(whole);
  const NamedParameters expected = parameters_of(whole);
  constexpr double bound = 1e-12;
  for (const auto& [name, micro, packing, recompute] :
       {std::tuple("one", 1, false, Recompute::none),
        {"four", 4, false, Recompute::selective},
        {"packed", 9, true, Recompute::none},
        {"packed in four", 4, true, Recompute::full}}) {
    Config c = whole;
    c.run.out = (folder_ / name).string();
    c.batch.micro = micro;
    c.data.packing = packing;
    c.memory.recompute = recompute;
    trained(c);
    EXPECT_LT(worst_error(parameters_of(c), expected), bound) << name;
  }
  Config other = whole;
  other.run.out = (folder_ / "other").string();
  other.loss.mask_fraction = 0.2;
  trained(other);
  EXPECT_GT(worst_error(parameters_of(other), expected), 1e6 * bound) << "masks are seen";
}

TEST_F(MaskedRun, EvaluationsOfOtherSeedsAndFractionsOfTrainingCompare) {
  const auto held_out = [&](const Config& c) {
    const Workload work = open_workload(c);
    const std::vector<std::int64_t> indices{0, 3};
    return data::fetch_as(*work.data.val, indices, indices);
  };
  Config c = masked("a"), other = c;
  other.run.seed = 77;
  EXPECT_TRUE(at::equal(held_out(c).inputs, held_out(other).inputs));
  EXPECT_TRUE(at::equal(held_out(c).targets, held_out(other).targets));
}

TEST_F(MaskedRun, HidesPartsOfMixturesByTheDraw) {
  Config c = of_lines("mixed");
  c.data.train.push_back((folder_ / "text.txt").string());
  c.data.weights = {1, 2};
  c.batch.samples = 12;
  const Workload work = open_workload(c);
  EXPECT_EQ(work.config.model.vocab, 257);
  EXPECT_EQ(work.data.train->parts().size(), 2);
  const std::vector<std::int64_t> indices{0, work.data.train->size() - 1};
  const batch::MicroBatch one = data::fetch_drawn_as(*work.data.train, indices, {3, 4}),
                          again = data::fetch_drawn_as(*work.data.train, indices, {3, 4}),
                          other = data::fetch_drawn_as(*work.data.train, indices, {5, 6});
  EXPECT_TRUE(at::equal(one.inputs, again.inputs));
  EXPECT_FALSE(at::equal(one.targets, other.targets));
  trained(c);
}

TEST_F(MaskedRun, StartsFromARunAndFromAFolder) {
  Config first = masked("first");
  trained(first);
  Config from_run = masked("from run");
  from_run.model.from = first.run.out;
  from_run.model.context = 8;  // the first of its positions
  from_run.batch.tokens = 8 * 10;
  const Workload of_run = open_workload(from_run);
  EXPECT_EQ(of_run.config.model.ffn_width.value_or(128), 128);
  const fs::path folder = folder_ / "folder";
  const auto trained_model = load_model(RunDirectory(first.run.out), std::nullopt);
  models::save_bert_folder(folder, dynamic_cast<const models::Bert&>(*trained_model));
  Config from_folder = masked("from folder");
  from_folder.model.from = folder.string();
  from_folder.model.context.reset();
  const Workload of_folder = open_workload(from_folder);
  EXPECT_EQ(of_folder.config.model.context, 16);
  expect_same_bits(of_folder.model->parameters(), trained_model->parameters());
  from_folder.run.steps = 2;
  trained(from_folder);
}

TEST_F(MaskedRun, FilesAreEvaluatedWithTokensHidden) {
  Config c = masked("run");
  c.run.steps = 3;
  trained(c);
  const auto evaluate = [&] {
    return evaluate_files({.model = c.run.out, .files = {(folder_ / "text.txt").string()}})
        .evaluation;
  };
  const Evaluation one = evaluate();
  EXPECT_EQ(evaluate().loss, one.loss);
  EXPECT_NEAR(one.weight, 0.15 * 8000, 400) << "about that share of the file's tokens";
}

/// Writes a tokenizer of bytes, followed by these added tokens, and returns its file.
std::string write_tokenizer(const fs::path& folder, const std::vector<std::string>& added) {
  data::write_byte_tokenizer(folder, /*context=*/16);
  const fs::path file = folder / data::kTokenizerFile;
  nlohmann::json tokenizer = nlohmann::json::parse(read_file(file));
  std::int64_t id = 256;
  for (const std::string& token : added)
    tokenizer["added_tokens"].push_back({{"id", id++}, {"content", token}, {"special", true}});
  std::ofstream(file) << tokenizer.dump();
  return file.string();
}

TEST_F(MaskedRun, TheMaskIsTheTokenizersOrWhatIsStated) {
  Config c = masked("run");
  const auto mask_with = [&](const std::vector<std::string>& added) {
    c.data.tokenizer = write_tokenizer(folder_, added);
    const Workload work = open_workload(c);
    return *mask_token_of(work.config, *work.data.train);
  };
  EXPECT_EQ(mask_with({"[CLS]", "[MASK]"}), 257);
  EXPECT_EQ(mask_with({"<mask>"}), 256);
  c.loss.mask_token = 7;
  EXPECT_EQ(mask_with({"[MASK]"}), 7);
  c.loss.mask_token.reset();
  write_tokenizer(folder_, {"[CLS]"});
  EXPECT_THAT(refusal(c), AllOf(HasSubstr("loss.mask_token"), HasSubstr("tokenizer.json without"),
                                HasSubstr("mask_token = ID")));
}

TEST_F(MaskedRun, RefusesWhatNobodyCanHide) {
  std::ofstream(folder_ / "ids.jsonl") << R"({"input_ids": [1, 2, 3], "labels": [1, 2, 3]})"
                                       << "\n";
  Config ids = of_lines("ids");
  ids.data.train = {(folder_ / "ids.jsonl").string()};
  ids.data.val_fraction = 0;
  ids.run.eval_every.reset();
  ids.batch = {.samples = 1, .micro = 1};
  ids.model.vocab = 9;
  EXPECT_THAT(refusal(ids), AllOf(HasSubstr("loss.mask_token"), HasSubstr("token ids")));
  ids.loss.mask_token = 9;
  EXPECT_THAT(refusal(ids), AllOf(HasSubstr("vocabulary of 9"), HasSubstr("model.vocab = 10")));
  ids.loss.mask_token = 8;
  EXPECT_EQ(open_workload(ids).config.model.vocab, 9);
  Config bytes = masked("bytes");
  bytes.model.vocab = 256;
  EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("model.vocab"), HasSubstr("257")));
}

}  // namespace
}  // namespace accrue::train
