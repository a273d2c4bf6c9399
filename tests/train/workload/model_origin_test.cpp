// model.from = a run folder, or a checkpoint in one.
#include "train/workload/model_origin.h"

#include <gmock/gmock.h>
#include <torch/script.h>

#include <fstream>

#include "accrue/models/gpt2.h"
#include "support/errors.h"
#include "train/checkpoint/run_claim.h"
#include "train/recorder.h"
#include "train/tiny_run.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Recorder;

class ModelOrigin : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    Config c = config("first");
    c.run.checkpoint_every = {2, Duration::Unit::steps};
    c.run.keep = 9;
    Trainer(c).run();
  }

  std::string first() const { return (folder_ / "first").string(); }
  std::string checkpoint(std::int64_t step) const {
    return RunDirectory(first()).checkpoint(step).string();
  }
  Config starting_from(const std::string& from) const {
    Config c = config("second");
    c.model = {};
    c.model.from = from;
    c.batch.tokens.reset();
    c.batch.samples = 7;
    return c;
  }
  std::string refusal(const Config& c) const {
    const std::string text = usage_message([&] { Trainer(c).run(); });
    EXPECT_FALSE(fs::exists(c.run.out));
    return text;
  }
  void expect_starts_as(const std::string& from, std::int64_t step) const {
    const Workload work = open_workload(starting_from(from));
    expect_same_bits(work.model->parameters(),
                     load_model(RunDirectory(first()), step)->parameters());
    EXPECT_EQ(work.config.model.width, 32);
    EXPECT_EQ(work.config.model.context, 16);
  }
};

TEST_F(ModelOrigin, IsTheNewestCheckpointOfARunOrTheOneThatIsNamed) {
  expect_starts_as(first(), 6);
  expect_starts_as(first() + "/", 6);
  expect_starts_as(checkpoint(4), 4);
  expect_starts_as(checkpoint(2) + "/", 2);
  const NamedParameters newest = load_model(RunDirectory(first()), 6)->parameters();
  const NamedParameters older = load_model(RunDirectory(first()), 4)->parameters();
  EXPECT_FALSE(at::equal(newest[0].tensor, older[0].tensor)) << "another step would be seen";
}

TEST_F(ModelOrigin, MayBeALinkToACheckpointOrHaveItsCheckpointsElsewhere) {
  fs::create_symlink(checkpoint(4), folder_ / "best");
  expect_starts_as((folder_ / "best").string(), 4);
  fs::rename(folder_ / "first/checkpoints", folder_ / "large_disk");
  fs::create_symlink(folder_ / "large_disk", folder_ / "first/checkpoints");
  expect_starts_as(checkpoint(2), 2);
}

TEST_F(ModelOrigin, IsNoCheckpointWithoutItsRun) {
  fs::create_directories(folder_ / "a/b");
  fs::copy(checkpoint(4), folder_ / "a/b/alone", fs::copy_options::recursive);
  const std::string from = (folder_ / "a/b/alone").string();
  EXPECT_THAT(refusal(starting_from(from)),
              AllOf(HasSubstr("model.from = \"" + from + "\": expected a checkpoint in its run's"),
                    HasSubstr("there is no " + (folder_ / "a/config.toml").string()),
                    HasSubstr("try the run's folder")));
}

TEST_F(ModelOrigin, BeginsANewRunThatSaysWhereItsModelIsFrom) {
  const Config c = starting_from(first());
  Trainer trainer(c);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add_observer(recorder);
  EXPECT_EQ(trainer.run().step, 6);
  EXPECT_EQ(recorder->steps.front().step, 1);
  const auto told = std::ranges::find(recorder->events, "model", &Event::name);
  ASSERT_NE(told, recorder->events.end());
  EXPECT_THAT(told->reason, HasSubstr(checkpoint(6)));

  fs::remove_all(first());
  EXPECT_EQ(load_model(RunDirectory(c.run.out), std::nullopt)->parameters()[0].tensor.size(1), 32)
      << "the run does not need the one it started from";
}

TEST_F(ModelOrigin, IsStatedWithItsShapeWhichHasToAgree) {
  const std::string toml =
      "[run]\nout = \"" + (folder_ / "second").string() + "\"\nsteps = 1\n[model]\nfrom = \"" +
      first() + "\"\nlayers = 2\nheads = 2\nwidth = 32\nvocab = 256\n[data]\ntrain = [\"" +
      (folder_ / "text.txt").string() + "\"]\n[batch]\nsamples = 7\n";
  const Config agrees = parse_config(toml, "run.toml");
  const Workload work = open_workload(agrees);
  expect_same_bits(work.model->parameters(), load_model(RunDirectory(first()), 6)->parameters());
  EXPECT_TRUE(differences(agrees, parse_config(toml, "run.toml", {"model.width=48"})).empty())
      << "the run's shape is no statement of the new one";
  const auto refused = [&](const std::vector<std::string>& overrides) {
    return usage_message([&] { open_workload(parse_config(toml, "run.toml", overrides)); });
  };
  EXPECT_THAT(refused({"model.layers=3", "model.width=48"}),
              AllOf(HasSubstr("config key model.layers (--model.layers"),
                    HasSubstr("expected model.layers = 2 and model.width = 32, as the run in "
                              "model.from has it"),
                    HasSubstr("received model.layers = 3 and model.width = 48"),
                    HasSubstr("try removing model.layers and model.width")));
  EXPECT_THAT(refused({"model.kv_heads=2"}), HasSubstr("try removing model.kv_heads"));
}

TEST_F(ModelOrigin, MayBeARunThatAnotherProcessGoesOnWith) {
  const RunClaim claim{RunDirectory(first())};
  expect_starts_as(first(), 6);
}

TEST_F(ModelOrigin, KeepsTheFirstPositionsOfAShorterContext) {
  Config c = starting_from(first());
  c.model.context = 8;
  const Workload work = open_workload(c);
  const NamedParameters whole = load_model(RunDirectory(first()), 6)->parameters();
  const NamedParameters parameters = work.model->parameters();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const at::Tensor& expected = whole[i].tensor;
    EXPECT_TRUE(at::equal(parameters[i].tensor, whole[i].name == "transformer.wpe.weight"
                                                    ? expected.narrow(0, 0, 8)
                                                    : expected))
        << whole[i].name;
  }
  ASSERT_EQ(work.remarks.size(), 2u);
  EXPECT_THAT(work.remarks[1], HasSubstr("8 of the model's 16"));
  Trainer(c).run();
  const auto trained = load_model(RunDirectory(c.run.out), std::nullopt);
  EXPECT_EQ(dynamic_cast<const models::Gpt2&>(*trained).options().context, 8);
  c.model.context = 17;
  c.run.out = (folder_ / "third").string();
  EXPECT_THAT(refusal(c), AllOf(HasSubstr("model.context = 17"), HasSubstr("16 positions")));
}

TEST_F(ModelOrigin, RefusesWhatIsNoModelToStartFrom) {
  EXPECT_THAT(refusal(starting_from((folder_ / "nowhere").string())),
              AllOf(HasSubstr("a run folder"), HasSubstr("no such folder")));
  EXPECT_THAT(refusal(starting_from(folder_.string())), HasSubstr("config.json, and no run"));
  Config vit = starting_from(first());
  vit.model.kind = ModelKind::vit;
  EXPECT_THAT(refusal(vit), HasSubstr("model.kind = \"gpt2\", as that run has"));
  fs::resize_file(fs::path(checkpoint(6)) / "model.safetensors", 100);
  EXPECT_THAT(refusal(starting_from(first())), HasSubstr("step-00000006"));
  fs::remove_all(RunDirectory(first()).checkpoints());
  EXPECT_THAT(refusal(starting_from(first())),
              AllOf(HasSubstr(first()), HasSubstr("at least one checkpoint")));
}

TEST_F(ModelOrigin, OfTokenFilesTakesNoText) {
  std::ofstream tokens(folder_ / "tokens.bin", std::ios::binary);
  for (char i = 0; i < 100; ++i) tokens.write("\1\0\2\0", 4);
  tokens.close();
  Config c = config("words");
  c.data = {.train = {(folder_ / "tokens.bin").string()}};
  c.model.vocab = 256;
  Trainer(c).run();
  EXPECT_THAT(refusal(starting_from(c.run.out)),
              AllOf(HasSubstr("data.train"), HasSubstr("not known to be bytes")));
  Config more = starting_from(c.run.out);
  more.data = c.data;
  EXPECT_EQ(Trainer(more).run().step, 6);
}

TEST_F(ModelOrigin, OfATorchScriptIsItsFile) {
  torch::jit::Module module("Language");
  const at::Tensor table = at::sin(at::arange(256 * 256, at::kFloat)).view({256, 256});
  module.register_parameter("table", table.clone().requires_grad_(true), false);
  module.define("def forward(self, ids):\n  return self.table[ids]\n");
  const std::string file = (folder_ / "module.pt").string();
  module.save(file);
  Config c = config("script");
  c.model = {.kind = ModelKind::torchscript, .context = 16, .from = file};
  Trainer(c).run();
  Config again = c;
  again.model.from = c.run.out;
  again.run.out = (folder_ / "again").string();
  EXPECT_THAT(refusal(again),
              AllOf(HasSubstr("TorchScript"), HasSubstr("--resume"), HasSubstr(file)));
}

}  // namespace
}  // namespace accrue::train
