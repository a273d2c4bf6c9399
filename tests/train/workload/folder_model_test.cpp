// model.from = a Hugging Face folder that others wrote: unusual contents, and files next to the
// model.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue/models/bert_io.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "train/tiny_run.h"
#include "train/workload/model_factory.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class FolderModel : public testing::TinyRun {
 protected:
  /// A GPT-2 of bytes in folder_ / "model".
  Config gpt2(const models::Gpt2Options& options = {
                  .layers = 2, .heads = 2, .width = 32, .context = 16, .vocab = 256}) const {
    models::save_gpt2_folder(folder_ / "model", models::Gpt2(options));
    Config c = config("run");
    c.model = {};
    c.model.from = (folder_ / "model").string();
    return c;
  }
};

TEST_F(FolderModel, KeepsWhatIsNotUsualInAGpt2) {
  const Config c = gpt2({.layers = 2,
                         .heads = 2,
                         .width = 32,
                         .ffn_width = 40,
                         .context = 16,
                         .vocab = 256,
                         .norm_eps = 1e-3});
  Trainer(c).run();
  fs::remove_all(folder_ / "model");
  const TrainedModel trained = load_trained_model(RunDirectory(c.run.out), std::nullopt);
  const auto& model = dynamic_cast<const models::Gpt2&>(*trained.model);
  EXPECT_EQ(model.options().ffn_width, 40);
  EXPECT_EQ(model.options().norm_eps, 1e-3);
  models::save_gpt2_folder(folder_ / "out", model);
  const json exported = json::parse(read_file(folder_ / "out/config.json"));
  EXPECT_EQ(exported["n_inner"], 40);
  EXPECT_EQ(exported["layer_norm_epsilon"], 1e-3);
}

TEST_F(FolderModel, KeepsWhatIsNotUsualInABert) {
  models::save_bert_folder(folder_ / "model", models::Bert({.layers = 1,
                                                            .heads = 2,
                                                            .width = 32,
                                                            .context = 16,
                                                            .vocab = 257,
                                                            .token_types = 3,
                                                            .norm_eps = 1e-3}));
  Config c = config("run");
  c.model = {};
  c.model.kind = ModelKind::bert;
  c.model.from = (folder_ / "model").string();
  c.loss.kind = models::LossKind::mlm;
  c.data.tokenizer = "bytes";
  Trainer(c).run();
  fs::remove_all(folder_ / "model");
  const TrainedModel trained = load_trained_model(RunDirectory(c.run.out), std::nullopt);
  const auto& model = dynamic_cast<const models::Bert&>(*trained.model);
  EXPECT_EQ(model.options().token_types, 3);
  EXPECT_EQ(model.options().norm_eps, 1e-3);
}

TEST_F(FolderModel, NamesTheTensorsThatAreLeftOut) {
  const Config c = gpt2();
  EXPECT_THAT(open_workload(c).remarks, ::testing::Not(Contains(HasSubstr("left out"))));
  NamedParameters tensors = models::read_safetensors(folder_ / "model/model.safetensors").tensors;
  tensors.push_back({"score.weight", at::ones({2, 32})});
  models::write_safetensors(folder_ / "model/model.safetensors", tensors);
  EXPECT_THAT(open_workload(c).remarks,
              Contains(AllOf(HasSubstr("1 tensor in"), HasSubstr("left out: score.weight"))));
  for (char name = 'a'; name < 'f'; ++name) tensors.push_back({std::string(1, name), at::ones(2)});
  models::write_safetensors(folder_ / "model/model.safetensors", tensors);
  EXPECT_THAT(open_workload(c).remarks,
              Contains(AllOf(HasSubstr("6 tensors"), HasSubstr("a, b and c, ..."))));
}

/// transformers would apply the adapter to the model.
TEST_F(FolderModel, HasNoAdapterBesideIt) {
  const Config c = gpt2();
  write_file_atomically(folder_ / "model/adapter_config.json", "{}");
  EXPECT_THAT(usage_message([&] { open_workload(c); }),
              AllOf(HasSubstr("adapter_config.json"), HasSubstr("lora.from")));
}

}  // namespace
}  // namespace accrue::train
