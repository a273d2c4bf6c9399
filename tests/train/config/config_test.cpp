#include "accrue/train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "accrue/core/error.h"
#include "train/config/key.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

constexpr const char* smallest = R"(
[run]
steps = 100
[data]
train = ["a.txt"]
[batch]
tokens = 512
)";

constexpr const char* everything = R"(
[run]
out = "runs/\"a\"\tb"
tokens = 1_000_000
seed = 7
device = "cpu"
kernels = "generic"
threads = 2
checkpoint_every = "500 steps"
keep = 5
keep_best = false
replica = "copies"
eval_every = "2 epochs"
eval_batches = 3
limits = [{file = "temp", above = 1, do = "slow"}]
[model]
kind = "gpt2"
layers = 2
heads = 4
width = 64
context = 32
vocab = 300
dropout = 0.1
freeze = ["wte", "h.0"]
[lora]
rank = 4
alpha = 6
dropout = 0.2
targets = ["attn"]
kind = "dora"
rs = true
[data]
train = ["a/*.txt", "b.txt"]
val = "c.txt"
exclude = ["a/old.txt"]
format = "jsonl"
tokenizer = "bytes"
order = "sequential"
packing = true
[batch]
samples = 64
micro = 4
schedule = []
last = "drop"
max_quarantined = 0.5
[precision]
compute = "bf16"
accumulate = "fixed"
[memory]
budget = "6GiB"
budget_file = "budget"
recompute = "full"
accumulation = "standard"
[loss]
cross_entropy = "plain"
label_smoothing = 0.1
z_loss = 1e-4
[optim]
kind = "rmsprop"
lr = 1
rates = ["lora_B = 2e-3", "mlp.*=1"]
eps = 1e-6
weight_decay = 0
decay = "all"
momentum = 0.5
clip = 0
on_divergence = "stop"
state = "bf16"
schedule = {kind = "linear", warmup = "1%", min_lr = 0.25}
scale_lr = "sqrt"
base_batch = 8
[dist]
backend = "gloo"
reduce = "end"
compress = "none"
shares = "equal"
shard = "optimizer"
shard_replica = "next"
stages = 1
local_steps = 1
min_ranks = 2
timeout = "90 s"
[adapt]
batch = "fixed"
[observe]
jsonl = false
tensorboard = false
progress = "lines"
prometheus = ""
mlflow = ""
)";

Config parse(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  return parse_config(toml, "run.toml", overrides);
}

TEST(ParseConfig, KeepsDocumentedDefaultsWhereNothingIsStated) {
  const Config config = parse(smallest);
  EXPECT_EQ(config.run.steps, 100);
  EXPECT_EQ(config.batch.tokens, 512);
  EXPECT_EQ(config.run.seed, 1337u);
  EXPECT_EQ(config.run.checkpoint_every, (Duration{600, Duration::Unit::seconds}));
  EXPECT_EQ(config.run.keep, 2);
  EXPECT_TRUE(config.run.keep_best);
  EXPECT_EQ(config.run.replica, "");
  EXPECT_EQ(config.run.eval_batches, std::nullopt);
  EXPECT_EQ(config.batch.micro, std::nullopt);
  EXPECT_EQ(config.optim.kind, OptimizerKind::adamw);
  EXPECT_EQ(config.optim.lr, 3e-4);
  EXPECT_EQ(config.optim.beta1, 0.9);
  EXPECT_EQ(config.optim.beta2, 0.95);
  EXPECT_EQ(config.optim.clip, 1.0);
  EXPECT_EQ(config.optim.schedule.kind, optim::ScheduleKind::cosine);
  EXPECT_EQ(config.precision.compute, models::Compute::fp32);
}

TEST(ParseConfig, ReadsEveryKeyOfThisVersion) {
  const Config config = parse(everything);
  EXPECT_EQ(config.run.out, "runs/\"a\"\tb");
  EXPECT_EQ(config.run.tokens, 1'000'000);
  EXPECT_EQ(config.run.seed, 7u);
  EXPECT_EQ(config.run.device, Device::cpu);
  EXPECT_EQ(config.run.threads, 2);
  EXPECT_EQ(config.run.checkpoint_every, (Duration{500, Duration::Unit::steps}));
  EXPECT_EQ(config.run.keep, 5);
  EXPECT_FALSE(config.run.keep_best);
  EXPECT_EQ(config.run.replica, "copies");
  EXPECT_EQ(config.run.eval_every, (Duration{2, Duration::Unit::epochs}));
  EXPECT_EQ(config.run.eval_batches, 3);
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.heads, 4);
  EXPECT_EQ(config.model.width, 64);
  EXPECT_EQ(config.model.context, 32);
  EXPECT_EQ(config.model.vocab, 300);
  EXPECT_EQ(config.model.dropout, 0.1);
  EXPECT_EQ(config.model.freeze, (std::vector<std::string>{"wte", "h.0"}));
  EXPECT_EQ(config.model.lora.adapters, (models::AdapterOptions{.rank = 4,
                                                                .alpha = 6,
                                                                .dropout = 0.2,
                                                                .targets = {"attn"},
                                                                .kind = models::AdapterKind::dora,
                                                                .rank_stabilised = true}));
  EXPECT_EQ(config.data.train, (std::vector<std::string>{"a/*.txt", "b.txt"}));
  EXPECT_EQ(config.data.val, (std::vector<std::string>{"c.txt"}));
  EXPECT_EQ(config.data.format, data::Format::jsonl);
  EXPECT_EQ(config.data.order, batch::Order::sequential);
  EXPECT_EQ(config.batch.samples, 64);
  EXPECT_EQ(config.batch.tokens, std::nullopt);
  EXPECT_EQ(config.batch.micro, 4);
  EXPECT_EQ(config.batch.last, batch::LastWindow::drop);
  EXPECT_EQ(config.precision.compute, models::Compute::bf16);
  EXPECT_EQ(config.precision.accumulate, accum::Accumulation::fixed);
  EXPECT_EQ(config.memory.accumulation, AccumulationOrder::standard);
  EXPECT_TRUE(config.data.packing);
  EXPECT_EQ(config.batch.max_quarantined, 0.5);
  EXPECT_EQ(config.optim.kind, OptimizerKind::rmsprop);
  EXPECT_EQ(config.optim.lr, 1.0);
  ASSERT_EQ(config.optim.rates.size(), 2U);
  EXPECT_EQ(config.optim.rates[0].match, "lora_B");
  EXPECT_EQ(config.optim.rates[0].lr, 2e-3);
  EXPECT_EQ(config.optim.rates[1].match, "mlp.*");
  EXPECT_EQ(config.optim.rates[1].lr, 1);
  EXPECT_EQ(config.optim.eps, 1e-6);
  EXPECT_EQ(config.optim.weight_decay, 0.0);
  EXPECT_EQ(config.optim.decay, Decay::all);
  EXPECT_EQ(config.optim.momentum, 0.5);
  EXPECT_EQ(config.optim.clip, 0.0);
  EXPECT_EQ(config.optim.schedule.kind, optim::ScheduleKind::linear);
  EXPECT_EQ(config.optim.schedule.warmup, (Duration{1, Duration::Unit::percent}));
  EXPECT_EQ(config.optim.schedule.min_lr, 0.25);
  EXPECT_EQ(config.optim.scale_lr, optim::ScaleRule::sqrt);
  EXPECT_EQ(config.optim.base_batch, 8);
  EXPECT_EQ(config.dist.backend, Backend::gloo);
  EXPECT_EQ(config.dist.reduce, Reduce::end);
  EXPECT_EQ(config.dist.compress, distributed::Compression::none);
  EXPECT_EQ(config.dist.shares, Shares::equal);
  EXPECT_EQ(config.dist.shard, Shard::optimizer);
  EXPECT_EQ(config.dist.shard_replica, ShardReplica::next);
  EXPECT_EQ(config.dist.min_ranks, 2);
  EXPECT_EQ(config.dist.timeout, (Duration{90, Duration::Unit::seconds}));
  EXPECT_FALSE(config.observe.jsonl);
  EXPECT_FALSE(config.observe.tensorboard);
  EXPECT_EQ(config.observe.progress, observe::ProgressStyle::lines);
}

TEST(Histograms, AreAskedForByADuration) {
  EXPECT_FALSE(parse(smallest).observe.histograms.has_value());
  const Config config = parse(smallest, {"observe.histograms=200 steps"});
  EXPECT_EQ(config.observe.histograms, (Duration{200, Duration::Unit::steps}));
  EXPECT_EQ(parse(to_toml(config)).observe.histograms, config.observe.histograms);
  EXPECT_FALSE(parse(smallest, {"observe.histograms=none"}).observe.histograms.has_value());
}

TEST(ToToml, ReadsBackToTheSameConfig) {
  for (const char* text : {smallest, everything}) {
    const Config config = parse(text);
    const std::string toml = to_toml(config);
    const Config again = parse(toml);
    EXPECT_TRUE(differences(config, again).empty()) << toml;
    EXPECT_EQ(to_toml(again), toml);
  }
}

TEST(ToToml, KeepsOddNumbersToTheBit) {
  Config config = parse(smallest);
  config.optim.lr = 0.1 + 0.2;
  config.optim.eps = 1.1754943508222877e-38;
  config.run.checkpoint_every = {1e7, Duration::Unit::tokens};
  config.run.out = "line\nbreak \x01 back\\slash";
  const Config again = parse(to_toml(config));
  EXPECT_EQ(again.optim.lr, config.optim.lr);
  EXPECT_EQ(again.optim.eps, config.optim.eps);
  EXPECT_EQ(again.run.checkpoint_every, config.run.checkpoint_every);
  EXPECT_EQ(again.run.out, config.run.out);
}

TEST(ParseConfig, GivesEachKindOfModelItsUsualShape) {
  const Config resnet = parse(smallest, {"model.kind=resnet", "batch.samples=8"});
  EXPECT_EQ(resnet.model.layers, 20);
  EXPECT_EQ(resnet.model.width, 16);
  const Config large = parse(smallest, {"model.kind=resnet", "batch.samples=8", "model.layers=50"});
  EXPECT_EQ(large.model.stem_or_usual(), models::Stem::conv7x7);
  EXPECT_EQ(large.model.width, 64);
  const Config stem = parse(smallest, {"model.kind=resnet", "batch.samples=8", "model.stem=7x7"});
  EXPECT_EQ(stem.model.layers, 18);
  const Config vit = parse(smallest, {"model.kind=vit", "batch.samples=8", "model.width=64"});
  EXPECT_EQ(vit.model.heads, 4);
  EXPECT_EQ(vit.model.width, 64);
  EXPECT_EQ(vit.model.context, 16);
}

/// In a run of an earlier version this always meant the network for small images.
TEST(ParseConfig, AResNetOfARunWithoutAStemIsThatForSmallImages) {
  const std::string run = std::string(smallest) + "[model]\nkind = \"resnet\"\nlayers = 50\n";
  const std::vector<std::string> batch{"batch.samples=8"};
  const Config earlier = parse_config(run, "config.toml", batch, ConfigOrigin::run);
  EXPECT_EQ(earlier.model.stem_or_usual(), models::Stem::conv3x3);
  const Config now = parse_config(run, "run.toml", batch);
  EXPECT_EQ(now.model.stem_or_usual(), models::Stem::conv7x7);
  EXPECT_EQ(parse_config(to_toml(now), "config.toml", {}, ConfigOrigin::run).model.stem_or_usual(),
            models::Stem::conv7x7);
}

TEST(ParseConfig, TakesAnAugmentationAsATable) {
  const Config config =
      parse(smallest, {"model.kind=vit", "batch.samples=8",
                       "data.augment={crop = [0.08, 1], ratio = [0.5, 2], flip = 0.5, hue = 0.1}"});
  const data::Augment expected{
      .crop = data::Interval{0.08, 1}, .ratio = {0.5, 2}, .flip = 0.5, .hue = 0.1};
  EXPECT_EQ(config.data.augment, expected);
  EXPECT_EQ(parse(to_toml(config)).data.augment, expected);
  EXPECT_FALSE(parse(smallest).data.augment.changes_anything());
}

TEST(ToToml, StatesOnlyWhatTheKindOfModelHas) {
  for (const char* kind : {"resnet", "vit", "torchscript"}) {
    const Config config = parse(
        smallest, {std::string("model.kind=") + kind, "batch.samples=8", "model.from=weights.pt"});
    const Config again = parse(to_toml(config));
    EXPECT_TRUE(differences(config, again).empty()) << to_toml(config);
    EXPECT_EQ(again.model.from, "weights.pt");
    EXPECT_EQ(again.model.layers, config.model.layers);
  }
}

TEST(ToToml, LeavesTheShapeToTheFolderAModelComesFrom) {
  const Config config = parse(smallest, {"model.from=gpt2-small"});
  EXPECT_THAT(to_toml(config), ::testing::Not(HasSubstr("layers")));
  EXPECT_TRUE(differences(config, parse(to_toml(config))).empty());
}

TEST(Differences, NameEachKeyWithBothValues) {
  const auto found = differences(parse(smallest), parse(smallest, {"optim.lr=0.5", "run.keep=9"}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "run.keep");
  EXPECT_EQ(found[1].key, "optim.lr");
  EXPECT_EQ(found[1].before, "0.0003");
  EXPECT_EQ(found[1].after, "0.5");
}

TEST(Differences, SeeEveryKeyThatCanBeStated) {
  const Config before = parse(smallest), after = parse(everything);
  const auto found = differences(before, after);
  // All values except those that are the same in both.
  std::size_t known = 0;
  for (const Key& key : keys())
    known += (is_read(key, after) && key.get(after)) || (is_read(key, before) && key.get(before));
  for (const char* same : {"batch.schedule", "adapt.batch", "observe.noise", "model.kind",
                           "model.from", "lora.from", "data.val_fraction", "loss.kind",
                           "memory.gradients", "memory.offload", "memory.offload_budget",
                           "dist.compress", "dist.local_steps", "dist.stages", "run.graphs"}) {
    EXPECT_EQ(std::ranges::count(found, same, &ConfigDifference::key), 0) << same;
    --known;
  }
  EXPECT_EQ(found.size(), known);
}

TEST(MayChangeOnResume, TheLengthAndWhatLeavesTheStepsAlone) {
  for (const char* key : {"run.steps", "run.tokens", "run.epochs", "run.out", "run.threads",
                          "run.keep", "run.keep_best", "run.replica", "run.eval_every",
                          "run.eval_batches", "run.checkpoint_every", "observe.jsonl",
                          "observe.tensorboard", "observe.histograms", "observe.progress"})
    EXPECT_TRUE(may_change_on_resume(key)) << key;
  for (const char* key : {"run.seed", "batch.tokens", "batch.micro", "optim.lr", "data.train",
                          "model.layers", "precision.compute", "no.key"})
    EXPECT_FALSE(may_change_on_resume(key)) << key;
}

/// Unlike the rest of the shape, which always comes from the folder.
TEST(ModelFrom, LeavesTheContextOfAGpt2ToItsFolderUnlessItIsStated) {
  const Config whole = parse(smallest, {"model.from=folder"});
  EXPECT_FALSE(whole.model.context.has_value());
  EXPECT_EQ(to_toml(whole).find("context"), std::string::npos);
  const Config shorter = parse(smallest, {"model.from=folder", "model.context=32"});
  EXPECT_EQ(shorter.model.context, 32);
  EXPECT_EQ(differences(whole, shorter).size(), 1u);
  EXPECT_EQ(parse(to_toml(shorter)).model.context, 32);
  EXPECT_EQ(parse(smallest).model.context, 256);
  EXPECT_TRUE(differences(parse(smallest), parse(smallest, {"model.context=256"})).empty());

  const std::string of_an_earlier_version =
      std::string(smallest) + "[model]\nfrom = \"folder\"\nlayers = 6\ncontext = 256\n";
  EXPECT_FALSE(parse_config(of_an_earlier_version, "config.toml", {}, ConfigOrigin::run)
                   .model.context.has_value());
}

TEST(Overrides, TakeTomlOrBareWords) {
  const Config config =
      parse(smallest, {"optim.lr=1e-2", "run.out=runs/b", "optim.schedule.warmup=10",
                       "run.checkpoint_every=10 min", "data.train=[\"x\", \"y\"]",
                       "model.kind=\"gpt2\"", "batch.micro=auto", "optim.schedule={min_lr=1e-3}"});
  EXPECT_EQ(config.optim.lr, 1e-2);
  EXPECT_EQ(config.run.out, "runs/b");
  EXPECT_EQ(config.optim.schedule.warmup, (Duration{10, Duration::Unit::steps}));
  EXPECT_EQ(config.run.checkpoint_every, (Duration{600, Duration::Unit::seconds}));
  EXPECT_EQ(config.data.train, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(config.optim.schedule.min_lr, 1e-3);
}

TEST(Overrides, TakeWhatLooksLikeANumberAsTextWhereTextIsAsked) {
  EXPECT_EQ(parse(smallest, {"run.out=2026"}).run.out, "2026");
  EXPECT_EQ(parse(smallest, {"run.out=true"}).run.out, "true");
  EXPECT_EQ(parse(smallest, {"run.out=2026-11-21"}).run.out, "2026-11-21");
}

TEST(Overrides, TheLastOneWins) {
  EXPECT_EQ(parse(smallest, {"optim.lr=0.1", "optim.lr=0.2"}).optim.lr, 0.2);
}

TEST(Overrides, OfOneAlternativeReplaceTheOneInTheFile) {
  const Config config = parse(smallest, {"run.epochs=2", "batch.samples=8"});
  EXPECT_EQ(config.run.steps, std::nullopt);
  EXPECT_EQ(config.run.epochs, 2.0);
  EXPECT_EQ(config.batch.tokens, std::nullopt);
  EXPECT_EQ(config.batch.samples, 8);
}

TEST(LoadConfig, ReadsAFileAndNamesItInErrors) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "load_config_test.toml";
  std::ofstream(path) << smallest;
  EXPECT_EQ(load_config(path, {"run.keep=3"}).run.keep, 3);
  std::ofstream(path) << smallest << "micro = = 2\n";
  try {
    load_config(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string() + ":8:"));
    EXPECT_EQ(error.exit_code(), 2);
  }
  std::filesystem::remove(path);
  EXPECT_THROW(load_config(path), Error);
  EXPECT_THROW(load_config(::testing::TempDir()), Error);
}

}  // namespace
}  // namespace accrue::train
