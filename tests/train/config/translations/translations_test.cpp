#include "train/config/translations/translations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "train/config/key.h"
#include "train/config/names.h"
#include "train/config/refusal_of.h"
#include "train/config/translations/advice.h"
#include "train/config/translations/carries.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A config of each kind: a line is valid if one of them accepts it.
const std::vector<std::vector<std::string>> kinds{{"optim.lr=1e305"},
                                                  {"model.kind=resnet"},
                                                  {"data.format=jsonl"},
                                                  {"dist.local_steps=2"},
                                                  {"model.from=a"},
                                                  {"model.from=a", "lora.rank=4"},
                                                  {"model.kind=torchscript", "model.from=a.pt"},
                                                  {"model.kind=gpt2", "model.width=384000"}};

std::string said(const std::vector<std::string>& overrides) {
  constexpr const char* run =
      "[run]\nsteps = 1000000\n[data]\ntrain = [\"a\"]\nval = [\"b\"]\n[batch]\nsamples = 8\n";
  try {
    parse_config(run, "run.toml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2) << error.what();
    return error.what();
  }
  return "accepted";
}

/// "optim.clip = 0.5" -> "optim.clip=0.5".
std::string override_of(const std::string& line) {
  const std::size_t equals = line.find(" = ");
  return line.substr(0, equals) + "=" + line.substr(equals + 3);
}

/// The message of each kind about the lines; "accepted" if one accepts them all.
std::string answers_to(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::vector<std::string>& kind : kinds) {
    std::vector<std::string> overrides = kind;
    for (const std::string& line : lines) overrides.push_back(override_of(line));
    const std::string answer = said(overrides);
    if (answer == "accepted") return answer;
    all += answer + "\n";
  }
  return all;
}

std::string name_of(const Translation& row) { return row.users.front().names; }

std::string advice_on(const std::string& name, const Value& value) {
  const auto foreign = find_foreign(name);
  return foreign ? advice_for(*foreign->row, value, Medium::file) : "not in the table";
}

TEST(Translations, AreOneForEachNameInTheSpellingThatIsLookedUp) {
  std::set<std::string> seen;
  for (const Translation* row : translations()) {
    std::set<std::string> of_row;
    for (const Users& users : row->users)
      for (const std::string& name : words_of(users.names)) {
        of_row.insert(name);
        EXPECT_EQ(name, normalised(name));
        EXPECT_EQ(find_foreign(name)->row, row) << name << " is in two rows";
      }
    EXPECT_FALSE(of_row.empty());
    seen.insert(of_row.begin(), of_row.end());
  }
  EXPECT_GT(seen.size(), 500U);
}

TEST(Translations, NeverHideAKeyOfOurs) {
  for (const Key& key : keys()) {
    if (!key.in_this_version) continue;
    const auto foreign = find_foreign(key.name);
    EXPECT_FALSE(foreign) << key.name << " is also " << (foreign ? foreign->name : "");
  }
}

TEST(Translations, NameOnlyKeysOfThisVersion) {
  const std::regex key_in_words(R"(\b(\w+\.[a-z_]+(\.[a-z_]+)?)\b)");
  const auto is_key = [](const std::string& word) {
    const Key* key = find_key(word);
    return key && key->in_this_version;
  };
  for (const Translation* row : translations()) {
    for (const Statement& statement : row->statements)
      EXPECT_TRUE(is_key(statement.key)) << statement.key;
    const std::string remark = row->remark;
    for (std::sregex_iterator at(remark.begin(), remark.end(), key_in_words), end; at != end; ++at)
      EXPECT_TRUE(is_key(at->str()) || at->str() == "metrics.jsonl" || at->str() == "llm.c")
          << at->str();
  }
}

TEST(Translations, HaveSomethingToSay) {
  for (const Translation* row : translations()) {
    const std::string remark = row->remark;
    EXPECT_TRUE(!row->statements.empty() || remark.starts_with("leaving it out, as ") ||
                remark.starts_with("accrue "))
        << name_of(*row);
    EXPECT_FALSE(remark.ends_with(".")) << remark;
  }
}

TEST(Translations, ParseAsTheySuggest) {
  for (const Translation* row : translations())
    EXPECT_EQ(answers_to(lines_for(*row, Value{true})), "accepted") << name_of(*row);
}

/// Any values of other programs, whether or not accrue has such values.
TEST(Translations, ParseWhateverWasStatedElsewhere) {
  const std::vector<Value> values{{false},
                                  {std::int64_t{0}},
                                  {std::int64_t{1}},
                                  {std::int64_t{8}},
                                  {std::int64_t{-1}},
                                  {std::int64_t{1} << 62},
                                  {0.03},
                                  {1.5},
                                  {1e300},
                                  {std::string("auto")},
                                  {std::string("bf16-mixed")},
                                  {std::string("adamw_torch")},
                                  {std::string("cosine")},
                                  {std::string("a \"b\"\n")},
                                  {Value::Array{{0.9}, {0.99}}},
                                  {Value::Array{{std::int64_t{8}}}},
                                  {Value::Array{}},
                                  {Value::Other{"table"}}};
  for (const Translation* row : translations())
    for (const Value& value : values)
      EXPECT_EQ(answers_to(lines_for(*row, value)), "accepted")
          << name_of(*row) << " = " << to_toml(value);
}

TEST(Translations, TakeTheValueAlong) {
  EXPECT_THAT(advice_on("gradient_accumulation_steps", {std::int64_t{16}}),
              StartsWith("under [batch]: micro_batches = 16 and micro = 4 ("));
  EXPECT_THAT(advice_on("update_freq", {Value::Array{{std::int64_t{2}}}}),
              HasSubstr("under [batch]: micro_batches = 2"));
  EXPECT_THAT(advice_on("max_grad_norm", {0.5}), HasSubstr("under [optim]: clip = 0.5"));
  EXPECT_THAT(advice_on("warmup_ratio", {0.07}),
              HasSubstr("under [optim]: schedule.warmup = \"7%\""));
  EXPECT_THAT(advice_on("warmup_steps", {std::int64_t{7}}), HasSubstr("warmup = 7 "));
  EXPECT_THAT(advice_on("warmup_steps", {0.1}), HasSubstr("warmup = \"10%\""));
  EXPECT_THAT(advice_on("optim", {std::string("adamw_torch_fused")}), HasSubstr("\"adamw\""));
  EXPECT_THAT(advice_on("optimizer.type", {std::string("Adam")}), HasSubstr("\"adam\""));
  EXPECT_THAT(advice_on("lr_scheduler_type", {std::string("constant_with_warmup")}),
              HasSubstr("\"constant\""));
  EXPECT_THAT(advice_on("precision", {std::string("bf16-mixed")}), HasSubstr("\"bf16\""));
  EXPECT_THAT(advice_on("dtype", {std::string("float32")}), HasSubstr("\"fp32\""));
  EXPECT_THAT(advice_on("zero_optimization.stage", {std::int64_t{0}}), HasSubstr("\"none\""));
  EXPECT_THAT(advice_on("zero_stage", {std::int64_t{3}}), HasSubstr("\"optimizer\""));
  EXPECT_THAT(advice_on("ddp_timeout", {std::int64_t{1800}}), HasSubstr("\"1800 s\""));
  EXPECT_THAT(advice_on("val_interval", {std::int64_t{2}}), HasSubstr("\"2 epochs\""));
  EXPECT_THAT(advice_on("max_steps", {std::int64_t{-1}}), HasSubstr("under [run]: steps = 1000"))
      << "what the key does not take is not suggested";
}

TEST(Translations, OfWhatIsTurnedOffTurnItOff) {
  EXPECT_THAT(advice_on("gradient_checkpointing", {true}),
              HasSubstr("under [memory]: recompute = \"full\""));
  EXPECT_THAT(advice_on("gradient_checkpointing", {false}), HasSubstr("\"none\""));
  EXPECT_THAT(advice_on("recompute_granularity", {std::string("selective")}),
              HasSubstr("recompute = \"selective\""));
  EXPECT_THAT(advice_on("fp16", {false}), HasSubstr("under [precision]: compute = \"fp32\""));
  EXPECT_THAT(advice_on("shuffle", {false}), HasSubstr("\"sequential\""));
  EXPECT_THAT(advice_on("verbose", {std::int64_t{0}}), HasSubstr("\"off\""));
  EXPECT_THAT(advice_on("load_best_model_at_end", {false}),
              HasSubstr("under [run]: keep_best = false"));
  EXPECT_THAT(advice_on("sync_bn", {false}), HasSubstr("leaving it out"));
}

TEST(ForeignNames, AreFoundWhereverTheyStand) {
  EXPECT_EQ(find_foreign("trainer.Accumulate-Grad-Batches")->name, "accumulate_grad_batches");
  EXPECT_EQ(find_foreign("train.fp16.enabled")->name, "fp16.enabled");
  EXPECT_EQ(find_foreign("dataset.max_tokens")->name, "dataset.max_tokens");
  EXPECT_EQ(find_foreign("max_tokens")->name, "max_tokens");
  EXPECT_FALSE(find_foreign("optim.lr"));
  EXPECT_EQ(find_foreign("lora.r")->name, "lora_r");
  EXPECT_EQ(find_foreign("model.lora.target-modules")->name, "lora_target_modules");
  EXPECT_FALSE(find_foreign("lora.alpha")) << "which is a key of ours, and lora_alpha is not";
  EXPECT_FALSE(find_foreign("enabled"));
}

TEST(ForeignNames, AreNearWhereLittleIsMisspelt) {
  EXPECT_EQ(nearest_foreign("gradient_accumulation_step")->name, "gradient_accumulation_steps");
  EXPECT_EQ(nearest_foreign("train.max_grad_nrom")->name, "max_grad_norm");
  for (const char* name : {"bf17", "optmzr", "something_else", "gradient", "max_widgets"})
    EXPECT_FALSE(nearest_foreign(name)) << name << " is near " << nearest_foreign(name)->name;
}

TEST(ForeignNames, OfSectionsAnswerForWhatIsInThem) {
  EXPECT_EQ(enclosing_foreign("zero_optimization.round_robin_gradients")->name,
            "zero_optimization");
  EXPECT_EQ(enclosing_foreign("fsdp_config.a.b")->name, "fsdp_config");
  EXPECT_FALSE(enclosing_foreign("optim.b")) << "which is also a section of ours";
  EXPECT_FALSE(enclosing_foreign("nothing.b"));
}

TEST(ForeignNames, NameTheirSystems) {
  EXPECT_EQ(users_of(*find_foreign("every_k_schedule")), "optax");
  EXPECT_EQ(users_of(*find_foreign("fp16_init_scale")), "fairseq");
  EXPECT_EQ(users_of(*find_foreign("lora_model_dir")), "axolotl");
  EXPECT_EQ(users_of(*find_foreign("decoder_layers")), "fairseq");
  EXPECT_EQ(users_of(*find_foreign("gradient_accumulation_steps")),
            "Hugging Face, Accelerate and other systems");
}

TEST(ForeignNames, AreToldToTheCommandLine) {
  EXPECT_EQ(foreign_key("every_k_schedule")->users, "optax");
  EXPECT_THAT(foreign_key("fp16")->advice, HasSubstr("--precision.compute=bf16"));
  EXPECT_FALSE(foreign_key("quick"));
}

TEST(UnknownKeys, OfOtherSystemsAreAnsweredInWords) {
  EXPECT_THAT(
      said({"accum_steps=4"}),
      AllOf(HasSubstr(
                "config key accum_steps (--accum_steps=4): expected a key of accrue, "
                "received a name of PyTorch scripts; try --batch.micro_batches=4 --batch.micro=4"),
            Not(HasSubstr("dist.local_steps"))));
  EXPECT_THAT(said({"use_amp=true"}), HasSubstr("--precision.compute=bf16"));
  EXPECT_THAT(said({"train.no_sync=true"}), HasSubstr("try leaving it out, as ranks sum"));
  EXPECT_THAT(said({"resume_from_checkpoint=true"}), HasSubstr("try accrue train CONFIG --resume"));
  EXPECT_THAT(said({"zero_optimization.round_robin_gradients=false"}),
              HasSubstr("--dist.shard=optimizer"));
  EXPECT_THAT(said({"grad_accumulation_stps=2"}),
              AllOf(HasSubstr("an unknown one, near grad_accumulation_steps of PyTorch scripts"),
                    HasSubstr("--batch.micro_batches=2")));
}

/// The refusal of `lines` at the top of a config that has a batch section itself.
std::string refusal_beside(const std::string& batch, const std::string& lines) {
  return refusal_of(lines + "\n[run]\nsteps = 10\n[data]\ntrain = [\"a\"]\n[batch]\n" + batch);
}

TEST(Advice, TakesTheMicroBatchThatTheConfigHas) {
  EXPECT_THAT(
      refusal_beside("samples = 32\nmicro = 8", "gradient_accumulation_steps = 16"),
      HasSubstr("; try under [batch]: micro_batches = 16 beside batch.micro = 8 in place of "
                "batch.samples ("));
  EXPECT_THAT(
      refusal_beside("tokens = 4096\nmicro = \"auto\"", "accum_steps = 2"),
      HasSubstr("under [batch]: micro_batches = 2 and micro = 4 in place of batch.tokens and "
                "batch.micro = \"auto\" ("));
}

TEST(Advice, TakesTheMicroBatchThatAnotherForeignNameStates) {
  EXPECT_THAT(refusal_beside("last = \"drop\"",
                             "gradient_accumulation_steps = 16\nper_device_train_batch_size = 12"),
              HasSubstr("under [batch]: micro_batches = 16 and micro = 12 ("));
}

TEST(Advice, SaysWhatItReplaces) {
  EXPECT_THAT(refusal_beside("samples = 32\nmicro = 8", "per_device_train_batch_size = 2"),
              HasSubstr("under [batch]: micro = 2 in place of batch.micro = 8 ("));
  EXPECT_THAT(refusal_beside("samples = 32", "max_epochs = 2"),
              HasSubstr("under [run]: epochs = 2 in place of run.steps ("));
  EXPECT_THAT(refusal_beside("samples = 32\nmicro = 2", "per_device_train_batch_size = 2"),
              HasSubstr("leaving it out, as the config has batch.micro = 2"));
}

TEST(Advice, IsAnOverrideWhereTheNameWasOne) {
  EXPECT_THAT(said({"gradient_accumulation_steps=4", "batch.micro=2"}),
              HasSubstr("try --batch.micro_batches=4 beside batch.micro = 2 in place of "
                        "batch.samples ("));
  EXPECT_THAT(said({"ddp_timeout=1800"}), HasSubstr("try '--dist.timeout=\"1800 s\"'"));
}

TEST(UnknownKeys, ThatAreNearNothingAreToldWhatThereIs) {
  EXPECT_THAT(
      said({"optim.nesterov=true"}),
      AllOf(HasSubstr("try one of the keys of [optim]: kind, lr,"), HasSubstr("schedule.warmup")));
  EXPECT_THAT(said({"batch.foo=1"}), HasSubstr("tokens, samples, micro_batches, micro, schedule"));
  EXPECT_THAT(
      said({"frobnicate=1"}),
      AllOf(HasSubstr("one of the sections run, model, lora, data, batch"), HasSubstr("adapt")));
  EXPECT_THAT(said({"observe.prometeus=localhost"}),
              HasSubstr("leaving it out: observe.prometheus is not in this version"));
}

}  // namespace
}  // namespace accrue::train
