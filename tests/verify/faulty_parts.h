#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "changed_model.h"
#include "configs_to_verify.h"
#include "train/window/close_window.h"
#include "train/workload/workload.h"
#include "verify/config/training_parts.h"

namespace accrue::proof::testing {

/// The parts of training, some of them replaced. Without replacements they are training's own.
class FaultyParts final : public TrainingParts {
 public:
  using OptimizerMaker =
      std::function<std::unique_ptr<optim::Optimizer>(train::Config, const NamedParameters&)>;

  OptimizerMaker make_optimizer = {};
  std::function<void(accum::Window&)> before_close = {};
  std::function<void(const accum::Window&, accum::MeanGradient&)> after_close = {};
  ChangedModel::Fault in_model = {};

  std::unique_ptr<models::Model> model(const train::Config& config) const override {
    return std::make_unique<ChangedModel>(TrainingParts::model(config), in_model);
  }
  std::unique_ptr<optim::Optimizer> optimizer(const train::Config& config,
                                              const NamedParameters& trained) const override {
    return make_optimizer ? make_optimizer(config, trained)
                          : TrainingParts::optimizer(config, trained);
  }
  std::unique_ptr<train::Parallelism> parallelism() const override {
    return std::make_unique<Closing>(*this);
  }

 private:
  class Closing final : public train::Parallelism {
   public:
    explicit Closing(const FaultyParts& parts) : parts_(parts) {}
    batch::Range share(batch::Range window) override { return window; }
    void close(accum::Window& window, train::WindowRun& run) override {
      if (parts_.before_close) parts_.before_close(window);
      train::close_window(window, run);
      if (run.gradient && parts_.after_close) parts_.after_close(window, *run.gradient);
    }
    std::vector<train::RankRecord> records() const override { return {}; }

   private:
    const FaultyParts& parts_;
  };
};

/// An optimizer with a fault that changes its steps. Without one it behaves like its optimizer.
class ChangedOptimizer : public optim::Optimizer {
 public:
  explicit ChangedOptimizer(std::unique_ptr<optim::Optimizer> sound) : sound_(std::move(sound)) {}

  void step(accum::MeanGradient&& gradient, double lr) override {
    sound_->step(std::move(gradient), lr);
  }
  NamedParameters state() const override { return sound_->state(); }
  void load_state(const StoredTensors& state) override { sound_->load_state(state); }
  std::int64_t state_bytes() const override { return sound_->state_bytes(); }
  std::shared_ptr<accum::FoldTarget> fold_target() override { return sound_->fold_target(); }

 private:
  std::unique_ptr<optim::Optimizer> sound_;
};

inline constexpr auto both_computes = {models::Compute::fp32, models::Compute::bf16};

/// Configs that are verified with other parts than training's.
class ConfigsOfParts : public ConfigsToVerify {
 protected:
  static Report verified(const train::Config& config, const FaultyParts& parts) {
    return verified(train::open_workload(config), parts);
  }
  static Report verified(train::Workload work, const FaultyParts& parts) {
    work.model = std::make_unique<ChangedModel>(std::move(work.model), parts.in_model);
    return verify_workload(std::move(work), {}, parts);
  }
  static std::string why(const Report& report) {
    return conclusion(report) + ::testing::PrintToString(report.evidence);
  }
  /// Expects the cause in fp32 and in bf16.
  static void expect_found(train::Config config, const FaultyParts& faulty, Cause cause) {
    for (const models::Compute compute : both_computes) {
      config.precision.compute = compute;
      SCOPED_TRACE(to_string(compute));
      expect_cause(verified(config, faulty), cause);
    }
  }
  static void expect_equal(train::Config config) {
    for (const models::Compute compute : both_computes) {
      config.precision.compute = compute;
      const Report report = verified(config, FaultyParts{});
      EXPECT_TRUE(report.equal) << to_string(compute) << why(report);
    }
  }
  static void expect_cause(const Report& report, Cause cause) {
    EXPECT_FALSE(report.equal) << why(report);
    EXPECT_GT(report.max_relative_error, report.bound) << why(report);
    EXPECT_EQ(to_string(report.cause), to_string(cause)) << why(report);
  }
  train::Config without_dropout() const {
    train::Config config = of_text();
    config.model.dropout = 0;
    config.run.threads = 1;  // operations are small
    return config;
  }
};

}  // namespace accrue::proof::testing
