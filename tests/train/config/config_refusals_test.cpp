#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "refusal_of.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A config that is correct except for `line`, which is line 2 of the text, below `section`.
std::string config_with(const std::string& section, const std::string& line) {
  std::string text = "[" + section + "]\n" + line + "\n";
  const auto add = [&](const std::string& name, const std::string& keys) {
    if (name == section) {
      text += keys;
    } else {
      text += "[" + name + "]\n" + keys;
    }
  };
  // The section's own keys must follow its header directly, so it comes first.
  if (section == "run") add("run", "steps = 10\n");
  if (section == "data") add("data", "train = [\"a\"]\n");
  if (section == "batch") add("batch", "tokens = 256\n");
  if (section != "run") add("run", "steps = 10\n");
  if (section != "data") add("data", "train = [\"a\"]\n");
  if (section != "batch") add("batch", "tokens = 256\n");
  return text;
}

struct Case {
  const char* section;
  const char* line;
  std::vector<std::string> says;
};

void PrintTo(const Case& c, std::ostream* out) { *out << "[" << c.section << "] " << c.line; }

class Refusals : public ::testing::TestWithParam<Case> {};

TEST_P(Refusals, SayWhatWasExpectedAndReceived) {
  const Case& c = GetParam();
  const std::string message = refusal_of(config_with(c.section, c.line));
  EXPECT_THAT(message, HasSubstr("run.toml:2:")) << c.line;
  for (const std::string& part : c.says) EXPECT_THAT(message, HasSubstr(part)) << c.line;
}

INSTANTIATE_TEST_SUITE_P(
    UnknownKeys, Refusals,
    ::testing::Values(Case{"optim", "weigth_decay = 0", {"unknown", "try optim.weight_decay"}},
                      Case{"optim", "warmup = 10", {"try optim.schedule.warmup"}},
                      Case{"model", "layer = 2", {"try model.layers"}},
                      Case{"lora", "r = 8", {"Hugging Face", "lora", "rank = 8"}},
                      Case{"lora", "target_modules = [\"q\"]", {"Hugging Face", "targets = "}},
                      Case{"optimizer", "lr = 2", {"try optim.lr"}},
                      Case{"optim", "lr.value = 2", {"optim.lr to be a number", "a table"}},
                      Case{"optim", "schedule = \"cosine\"", {"a table of keys", "a string"}}));

INSTANTIATE_TEST_SUITE_P(
    TypesAndRanges, Refusals,
    ::testing::Values(
        Case{"optim", "lr = \"fast\"", {"optim.lr", "a number above 0", "\"fast\" (a string)"}},
        Case{"optim", "lr = 0", {"a number above 0.0", "0 (an integer)"}},
        Case{"optim", "lr = nan", {"nan (a float)"}}, Case{"optim", "lr = inf", {"inf (a float)"}},
        Case{"optim", "betas = [0.9, 1.0]", {"[0.9, 1.0] (an array)"}},
        Case{"optim", "betas = 0.9", {"two numbers"}},
        Case{"optim", "clip = -1", {"at least 0.0", "-1"}},
        Case{"optim", "weight_decay = -0.1", {"at least 0.0"}},
        Case{"optim", "kind = \"adamx\"", {"\"adamw\" or \"adam\"", "try \"adamw\""}},
        Case{"optim", "kind = \"lion\"", {"\"adamw\" or \"adam\"", "; try one of these values"}},
        Case{"optim", "kind = \"nadam\"", {"another optimizer", "; try one of these values"}},
        Case{"optim", "kind = \"adagrad\"", {"; try one of these values"}},
        Case{"optim", "kind = \"AdamW8bit\"", {"; try \"adamw\""}},
        Case{"optim", "state = \"int4\"", {"; try one of these values"}},
        Case{"optim", "schedule.kind = \"cosine_decay\"", {"; try \"cosine\""}},
        Case{"precision", "compute = \"bfloat16\"", {"; try \"bf16\""}},
        Case{"precision", "compute = 32", {"; try \"fp32\""}},
        Case{"data", "order = \"shufle\"", {"; try \"shuffle\""}},
        Case{"data", "val_fraction = \"10%\"", {"; try 0.1"}},
        Case{"data", "val_fraction = \"0.2\"", {"; try 0.2"}},
        Case{"data", "val_fraction = \"150%\"", {"; try a number without quotes"}},
        Case{"memory", "budget = \"512mb\"", {"; try \"512MiB\""}},
        Case{"batch", "micro = 0", {"from 1 to 1_000_000_000", "or \"auto\""}},
        Case{"batch", "micro = 1.5", {"an integer", "1.5 (a float)"}},
        Case{"batch", "micro = \"8\"", {"; try 8"}},
        Case{"batch", "micro = \"8 samples\"", {"; try 8"}},
        Case{"run", "keep = \"2kb\"", {"; try 2000"}},
        Case{"run", "keep = \"2 million\"", {"; try digits, such as 8"}},
        Case{"run", "keep = \"many\"", {"; try digits, such as 8"}},
        Case{"run", "device = \"gpu\"", {"called \"cuda\" here", "; try \"cuda\""}},
        Case{"run", "device = \"cuda:0\"", {"; try \"cuda\""}},
        Case{"model", "kind = \"gpt\"", {"; try \"gpt2\""}},
        Case{"model", "kind = \"gpt3\"", {"; try \"gpt2\""}},
        Case{"model", "kind = \"Llama-3.2\"", {"; try \"llama\""}},
        Case{"model", "kind = \"resnet50\"", {"; try \"resnet\""}},
        Case{"model", "kind = \"t5\"", {"; try one of these values"}},
        Case{"optim", "schedule.kind = \"cos\"", {"; try \"cosine\""}},
        Case{"optim", "schedule.kind = \"co\"", {"; try one of these values"}},
        Case{"optim", "lr = \"1e-3x\"", {"; try 0.001"}},
        Case{"batch", "micro = \"aut\"", {"or \"auto\"", "a string"}},
        Case{"batch", "last = \"keep\"", {"\"weighted\" or \"drop\""}},
        Case{"run", "seed = -1", {"of at least 0"}}, Case{"run", "keep = 0", {"from 1 to"}},
        Case{"run", "keep_best = 1", {"true or false", "1 (an integer)"}},
        Case{"run", "out = 3", {"a text in quotes"}},
        Case{"run", "checkpoint_every = \"10 fortnights\"", {"a duration", "10 fortnights"}},
        Case{"run", "checkpoint_every = 0", {"above 0"}},
        Case{"run", "checkpoint_every = 1.5", {"a whole number of steps"}},
        Case{"run", "eval_every = true", {"a duration", "a boolean"}},
        Case{"run", "threads = -1", {"from 0 to"}},
        Case{"optim", "schedule.warmup = \"10 min\"", {"not a time"}},
        Case{"optim", "schedule.warmup = \"150%\"", {"at most \"100%\""}},
        Case{"data", "order = 2026-11-21", {"\"shuffle\"", "a date"}},
        Case{"data", "val = [1]", {"texts in quotes"}},
        Case{"model", "dropout = 1.0", {"[0.0, 1.0)"}}, Case{"lora", "rank = -1", {"from 0 to"}},
        Case{"lora", "kind = \"vera\"\nrank = 4", {"\"lora\" or \"dora\""}},
        Case{"lora", "from = \"adapter\"", {"model.from", "the base"}},
        Case{"lora", "alpha = 16", {"lora.alpha only with", "lora.rank above 0"}},
        Case{"optim", "rates = [\"wte\"]", {"\"PATTERN = RATE\"", "\"wte\""}},
        Case{"optim", "rates = [\"wte = 0\"]", {"a rate above 0"}},
        Case{"optim", "rates = [\" = 1e-4\"]", {"PATTERN"}},
        Case{"optim", "rates = [\"wte = 1e-4x\"]", {"PATTERN"}},
        Case{"model", "context = 0", {"from 1 to"}}));

INSTANTIATE_TEST_SUITE_P(
    NotInThisVersion, Refusals,
    ::testing::Values(
        Case{"model", "batchnorm = \"frozen\"", {"\"exact\"", "\"micro\""}},
        Case{"precision", "compute = \"half\"", {"called \"fp16\" here", "; try \"bf16\""}},
        Case{"precision", "loss_scale = 1000\ncompute = \"fp16\"", {"a power of two", "512"}},
        Case{"precision", "loss_scale = \"static\"\ncompute = \"fp16\"", {"\"dynamic\""}},
        Case{"precision", "accumulate = \"fp16\"", {"\"bf16-kahan\""}},
        Case{"precision", "loss_scale = 1024", {"only with", "\"fp16\""}},
        Case{"memory", "budget = \"much\"", {"memory.budget", "6GiB"}},
        Case{"memory", "budget = 6", {"received \"6\", which has none", "try \"6GiB\""}},
        Case{"memory", "budget = \"6\"", {"a size with its unit", "try \"6GiB\""}},
        Case{"memory", "budget = 0", {"\"6GiB\""}},
        Case{"memory", "budget = 6.5", {"with their unit", "\"6GiB\""}},
        Case{"memory", "budget = 6442450944", {"try \"6442450944 B\""}},
        Case{"memory", "budget = \"0 GiB\"", {"\"6GiB\""}},
        Case{"memory", "recompute = \"some\"", {"\"selective\"", "\"full\""}},
        Case{"memory", "accumulation = \"layer\"", {"\"standard\"", "\"layered\""}},
        Case{"memory", "offload = true", {"a folder's path", "a boolean"}},
        Case{"memory", "offload_budget = \"auto\"", {"memory.offload_budget"}},
        Case{"memory", "offload_budget = \"0 GiB\"", {"\"none\" or bytes", "\"40GiB\""}},
        Case{"memory", "offload_budget = true", {"\"none\" or bytes", "\"40GiB\""}},
        Case{"data", "format = \"csv\"", {"\"jsonl\"", "\"images\""}},
        Case{"data", "tokenizer = 1", {"tokenizer.json"}},
        Case{"data", "packing = 1", {"true or false"}},
        Case{"batch", "max_quarantined = 1.5", {"[0.0, 1.0]"}},
        Case{"model", "kind = \"torchscript\"", {"model.from", "model.pt"}},
        Case{"optim", "state = \"int4\"", {"\"int8\""}},
        Case{"loss", "label_smoothing = 1.0", {"[0.0, 1.0)"}},
        Case{"loss", "kind = \"mlm\"", {"loss.kind", "try model.kind = \"bert\""}},
        Case{"loss",
             "kind = \"lm\"\n[model]\nkind = \"bert\"",
             {"loss.kind", "which sees all of a sample"}},
        Case{"loss",
             "kind = \"dpo\"\n[model]\nkind = \"bert\"",
             {"loss.kind", "which sees all of a sample"}},
        Case{"loss", "mask_fraction = 0\n[model]\nkind = \"bert\"", {"(0.0, 1.0]"}},
        Case{"loss", "mask_fraction = 1.5\n[model]\nkind = \"bert\"", {"(0.0, 1.0]"}},
        Case{"loss", "mask_token = -1\n[model]\nkind = \"bert\"", {"loss.mask_token", "\"auto\""}},
        Case{"lora", "rank = 4\n[model]\nkind = \"bert\"", {"lora.rank", "\"gpt2\" or \"llama\""}},
        Case{"model", "width = 50\nheads = 4\nkind = \"bert\"", {"model.width", "a multiple"}},
        Case{"loss", "mask_fraction = 0.2", {"loss.mask_fraction", "loss.kind = \"mlm\""}},
        Case{"loss", "beta = 0.1", {"loss.kind", "\"dpo\""}},
        Case{"loss", "z_loss = -1", {"of at least 0"}},
        Case{"memory",
             "gradients = \"buffer\"\n[optim]\nkind = \"adama\"\nclip = 0",
             {"memory.gradients", "adamw"}},
        Case{"loss", "cross_entropy = \"chunked\"", {"\"fused\"", "\"plain\""}},
        Case{"dist", "shard = \"gradients\"", {"\"none\"", "\"optimizer\""}},
        Case{"dist",
             "shard = \"optimizer\"\nlocal_steps = 9",
             {"dist.shard", "all of its optimizer"}},
        Case{"dist", "stages = 2\nlocal_steps = 4", {"dist.stages", "local_steps = 1"}},
        Case{"dist", "stages = 0", {"dist.stages", "1"}},
        Case{"dist", "shard = \"optimizer\"\ncompress = \"bf16\"", {"dist.shard", "dist.compress"}},
        Case{"dist", "shard_replica = \"next\"", {"dist.shard_replica", "shard = \"optimizer\""}},
        Case{"dist", "local_steps = 0", {"from 1 to"}},
        Case{"dist", "outer.momentum = 1", {"[0.0, 1.0)"}},
        Case{"dist", "outer.parts = 0\nlocal_steps = 4", {"from 1 to"}},
        Case{"dist", "outer.delay = -1\nlocal_steps = 4", {"from 0 to"}},
        Case{"dist",
             "outer = {parts = 3, delay = 2}\nlocal_steps = 4",
             {"dist.outer.parts", "at most dist.local_steps (4)", "received 3 + 2"}},
        Case{"dist",
             "outer.delay = 4\nlocal_steps = 4",
             {"dist.outer.delay", "merged within the round", "received 1 + 4"}},
        Case{"dist", "outer = {lr = 1, parts = 2}", {"dist.outer.parts", "dist.local_steps > 1"}},
        Case{"dist",
             "outer.lr = 0.7\n[precision]\naccumulate = \"fixed\"",
             {"dist.outer.lr", "where each steps alone"}},
        Case{"dist",
             "local_steps = 9\n[optim]\nkind = \"adama\"\nclip = 0",
             {"dist.local_steps", "folded into the optimizer"}},
        Case{"dist", "compress = \"fp8\"", {"\"int8\"", "\"powersgd\""}},
        Case{"dist",
             "compress = \"bf16\"\n[precision]\naccumulate = \"fixed\"",
             {"dist.compress", "the same bits for any number of ranks"}},
        Case{"dist",
             "compress = \"int8\"\n[precision]\ncompute = \"fp64\"",
             {"dist.compress", "sums in fp32"}},
        Case{"observe", "histograms = \"often\"", {"observe.histograms", "\"none\""}},
        Case{"observe", "histograms = 0", {"observe.histograms"}},
        Case{"observe",
             "histograms = \"9 steps\"\ntensorboard = false",
             {"observe.histograms", "observe.tensorboard = true", "TensorBoard's files"}},
        Case{"observe", "prometheus = \"localhost:9\"", {"not in this version"}}));

INSTANTIATE_TEST_SUITE_P(
    OtherSystems, Refusals,
    ::testing::Values(
        Case{"train", "gradient_accumulation_steps = 8", {"other systems", "batch.tokens"}},
        Case{"batch", "accumulate_grad_batches = 8", {"batch.tokens or batch.samples"}},
        Case{"batch", "per_device_train_batch_size = 8", {"under [batch]: micro = 8"}},
        Case{"batch", "train_micro_batch_size_per_gpu = 8", {"batch.micro"}},
        Case{"batch",
             "global_batch_size = 8",
             {"under [batch]: samples = 8 in place of batch.tokens"}},
        Case{"optim", "learning_rate = 1", {"under [optim]: lr = 1"}},
        Case{"optim", "Max-Grad-Norm = 1", {"under [optim]: clip = 1"}},
        Case{"run", "max_steps = 1", {"run.steps"}},
        Case{"run", "num_train_epochs = 1", {"under [run]: epochs = 1 in place of run.steps"}},
        Case{"optim", "warmup_steps = 1", {"under [optim]: schedule.warmup = 1"}},
        Case{"precision", "bf16 = true", {"under [precision]: compute = \"bf16\""}},
        Case{"model", "block_size = 64", {"under [model]: context = 64"}}));

INSTANTIATE_TEST_SUITE_P(
    Contradictions, Refusals,
    ::testing::Values(
        Case{"optim", "schedule.min_lr = 1", {"at most optim.lr (0.0003)", "received 1.0"}},
        Case{"optim", "schedule.warmup = 11", {"at most the run's length (10 steps)"}},
        Case{"optim", "scale_lr = \"linear\"", {"optim.base_batch"}},
        Case{"run", "tokens = 5", {"exactly one of run.steps, run.tokens and run.epochs"}},
        Case{"batch",
             "samples = 5",
             {"exactly one of batch.tokens, batch.samples and batch.micro_batches"}},
        Case{"run", "eval_every = 5", {"validation data"}},
        Case{"model", "width = 100", {"a multiple of model.heads (6)", "received 100"}}));

TEST(RefusalsAtTopLevel, TranslateOtherSystemsNames) {
  const std::string message =
      refusal_of("per_gpu_train_batch_size = 2\n" + config_with("run", "keep = 1"));
  EXPECT_THAT(message, HasSubstr("run.toml:1:1"));
  EXPECT_THAT(message, HasSubstr("batch.micro"));
}

TEST(RefusalsAtTopLevel, NameASectionGivenAsAValue) {
  EXPECT_THAT(refusal_of("model = \"gpt2\"\n"), HasSubstr("[model] with its keys below"));
  EXPECT_THAT(refusal_of("[optimisation]\n"), HasSubstr("unknown"));
}

TEST(RefusalsAtTopLevel, NameTheKindThatAValueOfASectionIs) {
  const std::string run = config_with("run", "keep = 1");
  EXPECT_THAT(refusal_of(run, {"optim.schedule=cosine"}),
              HasSubstr("; try --optim.schedule.kind=cosine"));
  EXPECT_THAT(refusal_of(run, {"optim=sgd"}), HasSubstr("; try --optim.kind=sgd"));
  EXPECT_THAT(
      refusal_of(run, {"dist.outer=0.7"}),
      HasSubstr("; try --dist.outer.KEY=VALUE with one of the keys lr, momentum, parts or delay"));
  EXPECT_THAT(refusal_of(run, {"optim.schedule=foo"}), HasSubstr("kind, warmup or min_lr"));
  EXPECT_THAT(refusal_of("optim.schedule = \"cosine\""),
              HasSubstr("; try [optim.schedule] with its keys below: kind = \"cosine\""));
}

TEST(RefusalsOfMissingKeys, NameWhatIsMissing) {
  EXPECT_THAT(refusal_of(""), HasSubstr("config run.toml: expected exactly one of run.steps"));
  EXPECT_THAT(refusal_of("run.steps = 1\n"),
              HasSubstr("batch.tokens, batch.samples and batch.micro_batches"));
  EXPECT_THAT(refusal_of("run.steps = 1\nbatch.tokens = 1\n"), HasSubstr("data.train"));
  EXPECT_THAT(refusal_of("run.steps = 1\nbatch.tokens = 1\ndata.train = []\n"),
              HasSubstr("run.toml:3:6"));
}

/// Label smoothing and a z-loss only affect a cross-entropy that accrue computes.
TEST(RefusalsOfLossTerms, NameTheKeyThatNoLossReads) {
  const std::string run = config_with("run", "keep = 1");
  const std::vector<std::string> script{"model.kind=torchscript", "model.from=a.pt"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string mse = "{name = \"stars\", loss = \"mse\"}";
  const std::vector<std::string> of_mse = with(script, {"loss.heads=[" + mse + "]"}),
                                 own = with(script, {"loss.method=loss"}),
                                 custom{"model.kind=custom"};
  for (const char* key : {"loss.label_smoothing", "loss.z_loss"}) {
    const std::string stated = std::string(key) + "=0.1";
    const std::string expected =
        std::string(key) + " only with a cross-entropy that accrue makes, received ";
    EXPECT_THAT(refusal_of(run, with(of_mse, {stated})),
                HasSubstr(expected + "loss.heads without one"));
    EXPECT_THAT(refusal_of(run, with(own, {stated})), HasSubstr(expected + "loss.method"));
    EXPECT_THAT(refusal_of(run, with(custom, {stated})), HasSubstr("model.kind = \"custom\""));
    EXPECT_NO_THROW(parse_config(run, "run.toml", with(script, {stated})));
    EXPECT_NO_THROW(parse_config(
        run, "run.toml", with(script, {"loss.heads=[{name = \"a\"}, " + mse + "]", stated})));
    EXPECT_NO_THROW(parse_config(run, "run.toml", with(of_mse, {std::string(key) + "=0"})));
  }
}

TEST(RefusalsOfPairs, ValidationDataIsGivenOnce) {
  EXPECT_THAT(refusal_of(config_with("data", "val = [\"b\"]\nval_fraction = 0.1")),
              HasSubstr("either data.val or data.val_fraction"));
  EXPECT_EQ(refusal_of(config_with("data", "val = [\"b\"]"), {"data.val_fraction=0.1"}),
            "accepted");
}

TEST(RefusalsOfPairs, AModelFromAFolderBringsItsShape) {
  EXPECT_THAT(refusal_of(config_with("model", "from = \".\"\nlayers = 2")),
              HasSubstr("expected model.layers only with model.from = \"\" (a folder "
                        "brings the model's shape), received model.from = \".\"; try removing "
                        "model.layers, or model.from = \"\""));
}

/// Whatever the model would have decided is not the mistake.
TEST(RefusalsOfPairs, AModelThatIsNotThereIsNamedBeforeTheKeysOfItsShape) {
  const std::string of_shape = config_with("model", "from = \"nowhere\"\nlayers = 2\nwidth = 64");
  for (const std::string& said :
       {refusal_of(of_shape), refusal_of(config_with("model", "from = \"nowhere\"\nkv_heads = 2")),
        refusal_of(config_with("run", "keep = 1"), {"model.from=nowhere", "model.layers=2"})})
    EXPECT_THAT(said, AllOf(HasSubstr("config key model.from ("),
                            HasSubstr("expected a Hugging Face folder (config.json, "),
                            HasSubstr("received \"nowhere\", which does not exist; try a folder on "
                                      "this machine"),
                            Not(HasSubstr("model.layers"))));
  EXPECT_THAT(refusal_of(of_shape), HasSubstr("run.toml:")) << "its place";
}

TEST(RefusalsOfToml, GiveLineAndColumn) {
  EXPECT_THAT(refusal_of("[run]\nsteps = = 2\n"), HasSubstr("read config run.toml:2:9"));
  EXPECT_THAT(refusal_of("[run]\nsteps = 1\nsteps = 2\n"), HasSubstr("run.toml:3:"));
}

TEST(RefusalsOfKinds, NameTheKeyThatDoesNotFitTheModel) {
  const std::string right = config_with("run", "keep = 1");
  const auto refusal = [&](std::vector<std::string> overrides) {
    overrides.push_back("batch.samples=8");
    return refusal_of(right, overrides);
  };
  EXPECT_EQ(refusal({"model.kind=resnet"}), "accepted");
  EXPECT_THAT(refusal({"model.kind=resnet", "model.layers=21"}), HasSubstr("6n + 2"));
  EXPECT_EQ(refusal({"model.kind=resnet", "model.layers=34"}), "accepted");
  EXPECT_THAT(refusal({"model.kind=resnet", "model.layers=20", "model.stem=7x7"}),
              HasSubstr("18, 34, 50, 101 or 152"));
  EXPECT_THAT(refusal({"model.kind=resnet", "model.layers=18", "model.stem=3x3"}),
              HasSubstr("6n + 2"));
  const auto augment = [&](const std::string& table) {
    return refusal({"model.kind=resnet", "data.augment=" + table});
  };
  EXPECT_EQ(augment("{pad = 4, flip = 0.5}"), "accepted");
  EXPECT_THAT(augment("{crop = [0.08, 1], pad = 4}"), HasSubstr("either data.augment.crop or"));
  EXPECT_THAT(augment("{crop = [1, 0.08]}"), HasSubstr("the least of them first"));
  EXPECT_THAT(augment("{crop = [0, 1]}"), HasSubstr("(0.0, 1.0]"));
  EXPECT_THAT(augment("{crop = true}"), HasSubstr("\"none\" or the least and the most"));
  EXPECT_THAT(augment("{hue = 0.6}"), HasSubstr("[0.0, 0.5]"));
  EXPECT_THAT(augment("{flip = 2}"), HasSubstr("[0.0, 1.0]"));
  EXPECT_THAT(augment("{ratio = [0.5, 2]}"), HasSubstr("data.augment.crop"));
  EXPECT_THAT(refusal({"model.kind=resnet", "model.heads=4"}), HasSubstr("removing model.heads"));
  EXPECT_THAT(refusal({"model.kind=resnet", "model.dropout=0.1", "model.heads=4",
                       "model.context=64", "model.layers=8", "lora.rank=4"}),
              AllOf(HasSubstr("received model.kind = \"resnet\""),
                    HasSubstr("try removing lora.rank, model.context, model.dropout and "
                              "model.heads, or ")));
  for (const char* kind : {"resnet", "vit", "torchscript"})
    EXPECT_THAT(refusal({std::string("model.kind=") + kind, "loss.cross_entropy=plain"}),
                HasSubstr("removing loss.cross_entropy"));
  EXPECT_THAT(refusal({"model.kind=vit", "model.width=30"}),
              HasSubstr("a multiple of model.heads (4)"));
  EXPECT_THAT(refusal_of(right, {"model.kind=vit"}), HasSubstr("try for example batch.samples"));
}

TEST(RefusalsOfKinds, AreNotForKeysOfTheKindThatAnOverrideReplaces) {
  const std::string of_resnet =
      config_with("model", "kind = \"resnet\"\nlayers = 8\nbatchnorm = \"convert-group\"");
  EXPECT_THAT(refusal_of(of_resnet, {"batch.samples=8"}), "accepted");
  EXPECT_THAT(refusal_of(of_resnet, {"batch.samples=8", "model.kind=vit"}), "accepted");
  EXPECT_THAT(
      refusal_of(of_resnet, {"batch.samples=8", "model.kind=vit", "model.batchnorm=convert-group"}),
      HasSubstr("try removing model.batchnorm"))
      << "which the command line states beside the kind";
  const std::string of_gpt2 =
      config_with("model", "kind = \"gpt2\"\nheads = 4\ncontext = 64\ndropout = 0.1");
  EXPECT_THAT(refusal_of(of_gpt2, {"batch.samples=8", "model.kind=resnet"}), "accepted");
  EXPECT_THAT(refusal_of(config_with("model", "kind = \"vit\"\nbatchnorm = \"exact\""),
                         {"batch.samples=8"}),
              HasSubstr("model.batchnorm"))
      << "the file's own kind";
}

TEST(RefusalsOfOverrides, QuoteTheOverride) {
  const std::string right = config_with("run", "keep = 1");
  for (const char* text : {"optim.lr", "=3", ".lr=3", "optim.=3", "optim..lr=3", "a b=3",
                           "data.train=[\"a\"", "optim.lr="})
    EXPECT_THAT(refusal_of(right, {text}), HasSubstr(std::string("override ") + text));
  EXPECT_THAT(refusal_of(right, {"optim.lr=abc"}), HasSubstr("--optim.lr=abc"));
  EXPECT_THAT(refusal_of(right, {"optim.lrr=1"}), HasSubstr("try --optim.lr=1"));
  EXPECT_THAT(refusal_of(right, {"batch_size=1"}), HasSubstr("batch.samples"));
  EXPECT_THAT(refusal_of(right, {"precision.loss_scale=4"}), HasSubstr("only with"));
  EXPECT_THAT(refusal_of(right, {"run.steps=1", "run.tokens=1"}), HasSubstr("exactly one of"));
  EXPECT_THAT(refusal_of(right, {"run.out=a\nb = 1"}), "accepted");
}

TEST(Graphs, AreRefusedWhereMicroBatchesDiffer) {
  const std::map<std::string, std::vector<std::string>> others{
      {"model.dropout", {"model.dropout=0.1"}},
      {"lora.dropout", {"lora.rank=4", "lora.dropout=0.1"}},
      {"loss.cross_entropy", {"loss.cross_entropy=plain"}},
      {"loss.kind = \"dpo\"", {"loss.kind=dpo"}},
      {"precision.accumulate", {"precision.accumulate=fixed"}},
      {"folded into the optimizer", {"optim.kind=adama", "optim.clip=0"}},
      {"model.kind", {"model.kind=vit"}}};
  const std::string usual = config_with("run", "graphs = true");
  EXPECT_TRUE(parse_config(usual, "run.toml").run.graphs);
  for (const auto& [named, overrides] : others) {
    try {
      parse_config(usual, "run.toml", overrides);
      ADD_FAILURE() << named;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("run.graphs"), HasSubstr(named)));
    }
  }
}

}  // namespace
}  // namespace accrue::train
