// Which TorchScript modules of a run folder may be loaded: loading runs their code.
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "accrue/train/run_record.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Recorder;

class ModuleTrustTest : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    save("model.pt", 1);
    config_ = config();
    config_.model.kind = ModelKind::torchscript;
    config_.model.from = (folder_ / "model.pt").string();
    config_.run.steps = 2;
    Trainer(config_).run();
  }

  /// Saves a module from bytes of text to logits of the next byte.
  void save(const std::string& name, double factor) const {
    torch::jit::Module module("Bigram");
    module.register_parameter("table", (0.1 * at::rand({256, 256})).requires_grad_(true), false);
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define("def forward(self, ids):\n  return " + std::to_string(factor) +
                  " * torch.embedding(self.table, ids)\n");
    module.save((folder_ / name).string());
  }
  RunDirectory run() const { return RunDirectory(config_.run.out); }
  std::string refusal() const {
    return usage_message([&] { load_model(run(), std::nullopt); });
  }
  void change_run_json(const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json record = nlohmann::json::parse(read_file(run().run_file()));
    change(record);
    write_file_atomically(run().run_file(), record.dump());
  }
  void name_in_config(const std::string& name) const {
    Config other = run().config();
    other.model.from = (folder_ / name).string();
    write_file_atomically(run().config_file(), to_toml(other));
  }

  Config config_;
};

TEST_F(ModuleTrustTest, TheModuleOfTheTrainingIsLoaded) {
  EXPECT_NO_THROW(load_model(run(), std::nullopt));
  fs::rename(folder_ / "model.pt", folder_ / "moved.pt");
  name_in_config("moved.pt");
  EXPECT_NO_THROW(load_model(run(), std::nullopt)) << "the same code at another place";
}

TEST_F(ModuleTrustTest, AnotherIsRefusedUnlessItIsTrusted) {
  save("other.pt", 2);
  name_in_config("other.pt");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("the TorchScript module that the run was trained with"),
                               HasSubstr("other.pt (sha256:"), HasSubstr("--trust-module")));
  EXPECT_NO_THROW(load_model(run(), std::nullopt, ModuleTrust::any));
  name_in_config("model.pt");
  EXPECT_NO_THROW(load_model(run(), std::nullopt));
  save("model.pt", 2);
  EXPECT_THAT(refusal(), HasSubstr("--trust-module")) << "a file that changed at its place";
}

TEST_F(ModuleTrustTest, AFolderWithoutADigestIsRefused) {
  change_run_json([](nlohmann::json& record) {
    record.erase("module");
    record.erase("checksum");
  });
  EXPECT_THAT(refusal(), AllOf(HasSubstr("received none, as in folders of earlier versions"),
                               HasSubstr("--trust-module")));
  EXPECT_NO_THROW(load_model(run(), std::nullopt, ModuleTrust::any));
  change_run_json([](nlohmann::json& record) { record["module"] = 7; });
  EXPECT_THAT(refusal(), HasSubstr("--trust-module"));
  fs::remove(run().run_file());
  EXPECT_THAT(refusal(), HasSubstr("--trust-module"));
}

TEST_F(ModuleTrustTest, ARepetitionGoesByTheDigestToo) {
  const auto record = read_run_record(run());
  const Config again = config_to_repeat(*record);
  EXPECT_NO_THROW(expect_module_to_repeat(*record, again));
  save("model.pt", 2);
  EXPECT_THAT(usage_message([&] { expect_module_to_repeat(*record, again); }),
              HasSubstr("--trust-module"));
  const std::vector<std::string> stated{"model.from=" + config_.model.from};
  EXPECT_NO_THROW(expect_module_to_repeat(*record, again, stated)) << "the user's own word";
}

/// The file may have been replaced between loading and the start of training.
TEST_F(ModuleTrustTest, ARunHasTheDigestOfTheModuleThatItLoaded) {
  config_.run.out = (folder_ / "second").string();
  Trainer trainer(config_);
  fs::rename(folder_ / "model.pt", folder_ / "loaded.pt");
  save("model.pt", 2);
  trainer.run();
  EXPECT_THAT(refusal(), HasSubstr("--trust-module"));
  name_in_config("loaded.pt");
  EXPECT_NO_THROW(load_model(run(), std::nullopt));
}

/// The config of a resumption is the user's own statement. A change is reported, and then recorded.
TEST_F(ModuleTrustTest, AResumptionTakesTheModuleOfItsConfigAndTells) {
  config_.run.steps = 3;
  save("model.pt", 2);
  const auto recorder = std::make_shared<Recorder>();
  Trainer trainer(config_);
  trainer.add_observer(recorder);
  trainer.run({.resume = true});
  std::string told;
  for (const Event& event : recorder->events)
    if (event.name == "model") told += event.reason;
  EXPECT_THAT(told, HasSubstr("is another TorchScript module than the run had"));
  EXPECT_NO_THROW(load_model(run(), std::nullopt));
}

}  // namespace
}  // namespace accrue::train
