// [lora], model.freeze and optim.rates: whole runs, resumed, exported and used as a start.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "accrue/models/adapter_io.h"
#include "accrue/models/freeze.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/llama_io.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "train/recorder.h"
#include "train/tiny_run.h"
#include "train/workload/step_lines.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::lines_of;

class AdapterRun : public testing::TinyRun {
 protected:
  /// Adapters on a base from a folder.
  Config adapters(const std::string& out, ModelKind kind = ModelKind::llama) const {
    Config c = config(out);
    c.model = {};
    c.model.kind = kind;
    c.model.from = base_folder(kind);
    c.model.context = 16;
    c.model.lora.adapters = {.rank = 3, .dropout = 0.1};
    return c;
  }

  std::string base_folder(ModelKind kind) const {
    const std::filesystem::path folder = folder_ / ("base-" + std::string(to_string(kind)));
    if (std::filesystem::exists(folder)) return folder.string();
    if (kind == ModelKind::gpt2)
      models::save_gpt2_folder(
          folder,
          models::Gpt2({.layers = 2, .heads = 2, .width = 32, .context = 32, .vocab = 256}));
    else
      models::save_llama_folder(folder, models::Llama({.layers = 2,
                                                       .heads = 4,
                                                       .kv_heads = 2,
                                                       .width = 32,
                                                       .ffn_width = 48,
                                                       .context = 32,
                                                       .vocab = 256}));
    return folder.string();
  }

  static NamedParameters adapters_of(const NamedParameters& parameters, bool wanted = true) {
    NamedParameters found;
    for (const NamedParameter& parameter : parameters)
      if (models::is_adapter_name(parameter.name) == wanted) found.push_back(parameter);
    return found;
  }
};

TEST_F(AdapterRun, LearnsByItsAdaptersAlone) {
  for (const ModelKind kind : {ModelKind::llama, ModelKind::gpt2})
    for (const models::AdapterKind of : {models::AdapterKind::lora, models::AdapterKind::dora}) {
      Config c = adapters(std::string(to_string(kind)) + std::string(to_string(of)), kind);
      c.model.lora.adapters.kind = of;
      const Workload work = open_workload(c);
      EXPECT_THAT(work.remarks, Contains(HasSubstr("parameters are trained")));
      Trainer(c).run();
      EXPECT_LT(lines_of(c).back()["loss"], lines_of(c).front()["loss"]);
      expect_same_bits(adapters_of(parameters_of(c), false),
                       adapters_of(work.model->parameters(), false));
      const NamedParameters before = adapters_of(work.model->parameters()),
                            after = adapters_of(parameters_of(c));
      for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_FALSE(at::equal(before[i].tensor, after[i].tensor)) << before[i].name;
    }
}

TEST_F(AdapterRun, ResumesToTheBit) {
  for (const models::Compute compute : {models::Compute::fp32, models::Compute::bf16}) {
    Config straight = adapters("straight-" + std::string(to_string(compute)));
    straight.model.lora.adapters.kind = models::AdapterKind::dora;
    straight.precision.compute = compute;
    Trainer(straight).run();
    Config broken = straight;
    broken.run.out += "-broken";
    Trainer first(broken);
    first.add_observer(std::make_shared<testing::SignalAfter>(10, SIGINT));
    EXPECT_TRUE(first.run().interrupted);
    EXPECT_EQ(Trainer(broken).run({.resume = true}).step, 6);
    expect_same_bits(parameters_of(broken), parameters_of(straight));
  }
}

TEST_F(AdapterRun, RecomputationAndOtherMicroBatchesGiveTheSame) {
  const auto run = [&](Recompute recompute, accum::Accumulation accumulate) {
    Config c = adapters(std::string(to_string(recompute)) + std::string(to_string(accumulate)));
    c.memory.recompute = recompute;
    c.precision.accumulate = accumulate;
    Trainer(c).run();
    return parameters_of(c);
  };
  for (const accum::Accumulation accumulate :
       {accum::Accumulation::fp32, accum::Accumulation::fixed}) {
    const NamedParameters kept = run(Recompute::none, accumulate);
    expect_same_bits(run(Recompute::selective, accumulate), kept);
    expect_same_bits(run(Recompute::full, accumulate), kept);
  }
}

TEST_F(AdapterRun, HoldsGradientsAndMomentsOfItsAdaptersAlone) {
  Config c = adapters("run");
  c.precision.compute = models::Compute::bf16;
  const Workload work = open_workload(c);
  const NamedParameters parameters = work.model->parameters();
  const std::int64_t trained = models::trained_parameter_count(*work.model);
  std::int64_t held = 0, matrices = 0;
  for (const NamedParameter& parameter : parameters) {
    held += static_cast<std::int64_t>(parameter.tensor.nbytes());
    if (!models::is_adapter_name(parameter.name) && parameter.tensor.dim() == 2)
      matrices += parameter.tensor.numel();
  }
  EXPECT_EQ(held, 4 * models::parameter_count(*work.model) - 2 * matrices);
  const auto optimizer = make_optimizer(c, parameters);
  constexpr std::int64_t moments = 2, bytes = 4;
  EXPECT_GE(optimizer->state_bytes(), trained * moments * bytes);
  EXPECT_LT(optimizer->state_bytes(), trained * moments * bytes + 1000);
  std::int64_t in_slots = 0;
  const auto buffer = make_gradient_buffer(c, *work.model);
  for (const auto& entry : buffer->entries()) in_slots += entry.parameter.numel();
  EXPECT_EQ(in_slots, trained);
}

TEST_F(AdapterRun, NeedsNothingButItsFolder) {
  Config c = adapters("run");
  Trainer(c).run();
  const NamedParameters parameters = parameters_of(c);
  std::filesystem::remove_all(c.model.from);
  expect_same_bits(parameters_of(c), parameters);
  const TrainedModel trained = load_trained_model(RunDirectory(c.run.out), std::nullopt);
  EXPECT_EQ(trained.config.model.lora.adapters.rank, 3);
}

TEST_F(AdapterRun, GoesOnWithAnAdapterThatWasExported) {
  Config first = adapters("first");
  first.model.lora.adapters.rank_stabilised = true;
  first.model.lora.adapters.targets = {"q_proj", "layers.1.mlp"};
  Trainer(first).run();
  const auto model = load_model(RunDirectory(first.run.out), std::nullopt);
  const std::string folder = (folder_ / "adapter").string();
  models::save_adapter_folder(folder, dynamic_cast<models::LanguageModel&>(*model), "base");
  Config second = adapters("second");
  second.model.lora = {.from = folder};
  const Workload work = open_workload(second);
  expect_same_bits(work.model->parameters(), parameters_of(first));
  EXPECT_EQ(work.config.model.lora.adapters.rank, 3);
  EXPECT_TRUE(work.config.model.lora.adapters.rank_stabilised);
  Trainer(second).run();
  EXPECT_EQ(load_trained_model(RunDirectory(second.run.out), std::nullopt)
                .config.model.lora.adapters.targets.size(),
            5U);

  Config of_other = second;
  of_other.model.from = base_folder(ModelKind::gpt2);
  of_other.model.kind = ModelKind::gpt2;
  EXPECT_THAT(usage_message([&] { open_workload(of_other); }), HasSubstr("lora.targets"));
  Config further = config("further");
  further.model = {};
  further.model.kind = ModelKind::llama;
  further.model.from = first.run.out;
  expect_same_bits(open_workload(further).model->parameters(), parameters_of(first));
  Config of_run = adapters("third");
  of_run.model.from = first.run.out;
  EXPECT_THAT(usage_message([&] { open_workload(of_run); }), HasSubstr("--format adapter"));
}

TEST_F(AdapterRun, StartsFromARunOfAWholeModel) {
  Config whole = config("whole");
  Trainer(whole).run();
  Config c = config("run");
  c.model = {};
  c.model.from = whole.run.out;
  c.model.lora.adapters = {.rank = 2};
  Trainer(c).run();
  expect_same_bits(adapters_of(parameters_of(c), false), parameters_of(whole));
}

TEST_F(AdapterRun, FrozenParametersStayAndRatesGoByPattern) {
  Config c = config("run");
  c.model.freeze = {"h.0", "ln_f"};
  c.optim.rates = {{"h.1.mlp", 1e-3}, {"h.1", 1e-4}};
  c.optim.schedule.kind = optim::ScheduleKind::constant;
  const Workload work = open_workload(c);
  Trainer(c).run();
  const NamedParameters before = work.model->parameters(), after = parameters_of(c);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool frozen = before[i].name.find("h.0.") != std::string::npos ||
                        before[i].name.find("ln_f") != std::string::npos;
    EXPECT_EQ(at::equal(before[i].tensor, after[i].tensor), frozen) << before[i].name;
  }
  const json rates = lines_of(c).back()["lrs"];
  EXPECT_EQ(rates, (json{{"decayed", 1e-2},
                         {"decayed:h.1", 1e-4},
                         {"decayed:h.1.mlp", 1e-3},
                         {"undecayed:h.1", 1e-4},
                         {"undecayed:h.1.mlp", 1e-3}}));
  c.optim.rates = {{"no_such", 1e-3}};
  EXPECT_THAT(usage_message([&] { make_optimizer(c, work.model->parameters()); }),
              HasSubstr("\"no_such\""));
  c.model.freeze = {"transformer"};
  EXPECT_THAT(usage_message([&] { open_workload(c); }), HasSubstr("model.freeze"));
}

}  // namespace
}  // namespace accrue::train
