// model.base: whole runs whose frozen base is in blocks.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "accrue/models/adapter_io.h"
#include "accrue/models/llama_io.h"
#include "kernels/blocks/block_matrix.h"
#include "support/errors.h"
#include "train/recorder.h"
#include "train/tiny_run.h"
#include "train/workload/step_lines.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using models::BaseFormat;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::lines_of;

class BaseRun : public testing::TinyRun {
 protected:
  Config adapters(const std::string& out, BaseFormat base = BaseFormat::q8_0) const {
    Config c = config(out);
    c.model = {};
    c.model.kind = ModelKind::llama;
    c.model.from = base_folder();
    c.model.context = 16;
    c.model.base = base;
    c.model.lora.adapters = {.rank = 3, .targets = {"q_proj", "down_proj"}};
    c.precision.compute = models::Compute::bf16;
    return c;
  }

  std::string base_folder() const {
    const std::filesystem::path folder = folder_ / "base";
    if (!std::filesystem::exists(folder))
      models::save_llama_folder(folder, models::Llama({.layers = 2,
                                                       .heads = 4,
                                                       .kv_heads = 2,
                                                       .width = 32,
                                                       .ffn_width = 64,
                                                       .context = 32,
                                                       .vocab = 256}));
    return folder.string();
  }
};

/// A folder whose weights have the values of the blocks is the same base, in bf16.
TEST_F(BaseRun, LearnsAsOnItsUnpackedValues) {
  Config c = adapters("blocks");
  Trainer(c).run();
  Config plain = adapters("plain", BaseFormat::as_stored);
  models::LlamaOptions options = models::read_llama_shape(c.model.from, {});
  models::Llama unpacked(options, models::Initialisation::zeros);
  NamedParameters base;
  for (const NamedParameter& parameter : open_workload(c).model->parameters())
    if (!models::is_adapter_name(parameter.name)) base.push_back(parameter);
  unpacked.load_file_tensors(base, "the blocks");
  plain.model.from = (folder_ / "unpacked").string();
  models::save_llama_folder(plain.model.from, unpacked);
  Trainer(plain).run();
  Config other = adapters("other", BaseFormat::bf16);
  Trainer(other).run();
  const std::vector<json> ours = lines_of(c), expected = lines_of(plain), others = lines_of(other);
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i]["loss"], expected[i]["loss"]);
    EXPECT_EQ(ours[i]["grad_norm"], expected[i]["grad_norm"]);
    EXPECT_NE(ours[i]["grad_norm"], others[i]["grad_norm"]);
  }
  EXPECT_LT(ours.back()["loss"], ours.front()["loss"]);
}

TEST_F(BaseRun, ResumesToTheBitAndKeepsItsBlocks) {
  Config straight = adapters("straight");
  const NamedParameters before = open_workload(straight).model->parameters();
  Trainer(straight).run();
  Config broken = straight;
  broken.run.out += "-broken";
  Trainer first(broken);
  first.add_observer(std::make_shared<testing::SignalAfter>(10, SIGINT));
  EXPECT_TRUE(first.run().interrupted);
  EXPECT_EQ(Trainer(broken).run({.resume = true}).step, 6);
  const NamedParameters after = parameters_of(straight);
  expect_same_bits(parameters_of(broken), after);
  std::int64_t in_blocks = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(at::equal(before[i].tensor, after[i].tensor),
              !models::is_adapter_name(before[i].name))
        << before[i].name;
    in_blocks += kernels::is_in_blocks(after[i].tensor) ? 1 : 0;
  }
  EXPECT_EQ(in_blocks, 2 * 7);
}

TEST_F(BaseRun, RecomputationAndOtherMicroBatchesGiveTheSame) {
  const auto run = [&](Recompute recompute, std::int64_t micro) {
    Config c = adapters(std::string(to_string(recompute)) + std::to_string(micro));
    c.memory.recompute = recompute;
    c.precision.accumulate = accum::Accumulation::fixed;
    c.batch.micro = micro;
    Trainer(c).run();
    return parameters_of(c);
  };
  const NamedParameters kept = run(Recompute::none, 2);
  expect_same_bits(run(Recompute::selective, 2), kept);
  expect_same_bits(run(Recompute::full, 2), kept);
}

TEST_F(BaseRun, NeedsNothingButItsFolder) {
  Config c = adapters("run");
  Trainer(c).run();
  std::filesystem::remove_all(c.model.from);
  const TrainedModel trained = load_trained_model(RunDirectory(c.run.out), std::nullopt);
  EXPECT_EQ(trained.config.model.base, BaseFormat::q8_0);
  Config further = config("further");
  further.model = {};
  further.model.kind = ModelKind::llama;
  further.model.from = c.run.out;
  expect_same_bits(open_workload(further).model->parameters(), parameters_of(c));
}

TEST_F(BaseRun, PacksARunOfAWholeModel) {
  Config whole = adapters("whole", BaseFormat::as_stored);
  whole.model.lora = {};
  Trainer(whole).run();
  Config c = adapters("run");
  c.model.from = whole.run.out;
  Trainer(c).run();
  EXPECT_EQ(load_trained_model(RunDirectory(c.run.out), std::nullopt).config.model.base,
            BaseFormat::q8_0);
}

TEST_F(BaseRun, RefusesRowsWithoutWholeBlocks) {
  Config c = adapters("run", BaseFormat::q4_k);
  EXPECT_THAT(usage_message([&] { open_workload(c); }),
              ::testing::AllOf(HasSubstr("model.base"), HasSubstr("q_proj.weight")));
  EXPECT_FALSE(std::filesystem::exists(c.run.out));
}

}  // namespace
}  // namespace accrue::train
