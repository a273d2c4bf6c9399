#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "accrue/kernels/kernel_choice.h"
#include "accrue/train/trainer.h"
#include "support/errors.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::error_of;
using accrue::testing::usage_message;
using kernels::Kernels;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Recorder;

/// Training in fp16 with ATen's operators: the path of a GPU, on the CPU.
class Fp16Run : public testing::TinyRun {
 protected:
  Config in_fp16(const std::string& out = "run") const {
    Config c = config(out);
    c.run.kernels = Kernels::generic;
    c.precision.compute = models::Compute::fp16;
    return c;
  }

  static std::shared_ptr<Recorder> recorded(const Config& c, const RunOptions& options = {}) {
    const auto recorder = std::make_shared<Recorder>();
    Trainer trainer(c);
    trainer.add_observer(recorder);
    trainer.run(options);
    return recorder;
  }

  static fs::path checkpoint_of(const Config& c, std::int64_t step) {
    return RunDirectory(c.run.out).checkpoint(step);
  }

  static nlohmann::json state_of(const fs::path& checkpoint) {
    return nlohmann::json::parse(std::ifstream(checkpoint / "state.json"));
  }

  /// A run of three steps that is continued to the length of `c`, with losses scaled by `scale`.
  std::shared_ptr<Recorder> resumed_with_scale(const Config& c, double scale) const {
    Config first = c;
    first.run.steps = 3;
    recorded(first);
    const fs::path checkpoint = checkpoint_of(c, 3);
    nlohmann::json state = state_of(checkpoint);
    state.at("loss_scale").at("scale") = scale;
    // A checkpoint from before checksums existed has lengths instead of a manifest.
    for (const char* name : {"model.safetensors", "optimizer.safetensors"})
      state["files"][name] = fs::file_size(checkpoint / name);
    std::ofstream(checkpoint / "state.json") << state;
    fs::remove(checkpoint / "manifest.json");
    return recorded(c, {.resume = true});
  }

 private:
  kernels::KernelScope generic_{Kernels::generic};
};

TEST_F(Fp16Run, LearnsAsMuchAsInFp32) {
  Config wide = config("fp32"), narrow = in_fp16("fp16");
  for (Config* c : {&wide, &narrow}) c->run.steps = 20;
  const auto expected = recorded(wide), actual = recorded(narrow);
  ASSERT_EQ(actual->steps.size(), 20u);
  EXPECT_LT(*expected->steps.back().loss, 3.5);
  EXPECT_NEAR(*actual->steps.back().loss, *expected->steps.back().loss, 0.02);
  EXPECT_NE(*actual->steps.back().loss, *expected->steps.back().loss) << "nothing was rounded";
  EXPECT_NEAR(*actual->steps.front().grad_norm, *expected->steps.front().grad_norm, 1e-2)
      << "a gradient is told without its loss scale";
  ASSERT_TRUE(actual->steps.back().gradient_variance.has_value());
  EXPECT_NEAR(*actual->steps.back().gradient_variance / *expected->steps.back().gradient_variance,
              1, 0.05)
      << "noise is measured without it, too";
  EXPECT_EQ(actual->steps.back().loss_scale, 1024);
  EXPECT_FALSE(expected->steps.back().loss_scale.has_value());
}

TEST_F(Fp16Run, ResumesToTheBitWithItsLossScale) {
  Config whole = in_fp16("whole"), parts = in_fp16("parts");
  for (Config* c : {&whole, &parts}) {
    c->optim.schedule.kind = optim::ScheduleKind::constant;
    c->model.dropout = 0.1;
  }
  recorded(whole);
  Config first = parts;
  first.run.steps = 3;
  recorded(first);
  recorded(parts, {.resume = true});
  expect_same_bits(parameters_of(whole), parameters_of(parts));
  const auto scale_of = [](const Config& c) { return state_of(checkpoint_of(c, 6))["loss_scale"]; };
  EXPECT_EQ(scale_of(parts), (nlohmann::json{{"scale", 1024.0}, {"good_windows", 6}}));
  EXPECT_EQ(scale_of(parts), scale_of(whole));
}

TEST_F(Fp16Run, RunsAWindowAgainWithASmallerLossScaleWhereGradientsOverflow) {
  Config undisturbed = in_fp16("undisturbed"), disturbed = in_fp16("disturbed");
  for (Config* c : {&undisturbed, &disturbed})
    c->optim.schedule.kind = optim::ScheduleKind::constant;
  const auto expected = recorded(undisturbed);
  const auto actual = resumed_with_scale(disturbed, 0x1p24);
  ASSERT_EQ(actual->steps.size(), 3u);
  EXPECT_GT(actual->steps.front().retries, 0);
  EXPECT_EQ(actual->steps.front().quarantined, 0) << "an overflow is no fault of the data";
  EXPECT_LE(*actual->steps.front().loss_scale, 0x1p16) << "fp16 ends at 65,504";
  EXPECT_EQ(actual->steps.back().loss_scale, actual->steps.front().loss_scale);
  EXPECT_EQ(actual->steps.back().retries, 0);
  EXPECT_NEAR(*actual->steps.back().loss, *expected->steps.back().loss, 0.01);
  const auto event = std::ranges::find(actual->events, "loss_scale", &Event::name);
  ASSERT_NE(event, actual->events.end());
  EXPECT_THAT(event->reason, HasSubstr("in place of 16,777,216"));
  EXPECT_FALSE(expected->has_event("loss_scale"));
}

TEST_F(Fp16Run, AFixedLossScaleStays) {
  Config c = in_fp16();
  c.precision.loss_scale = 64;
  EXPECT_EQ(recorded(c)->steps.back().loss_scale, 64);
  Config too_large = in_fp16("too large");
  too_large.precision.loss_scale = 1 << 24;
  EXPECT_THAT(error_of([&] { Trainer(too_large).run(); }), HasSubstr("not finite"));
}

TEST_F(Fp16Run, IsRefusedOnTheKernelsOfTheCpu) {
  Config c = in_fp16();
  c.run.kernels.reset();
  c.run.device = Device::cpu;
  EXPECT_THAT(usage_message([&] { Trainer trainer(c); }),
              AllOf(HasSubstr("a GPU"), HasSubstr("\"bf16\""), HasSubstr("\"generic\"")));
  EXPECT_FALSE(fs::exists(c.run.out));
}

}  // namespace
}  // namespace accrue::train
