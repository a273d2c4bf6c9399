// The memory for loading a checkpoint in addition to the model and the optimizer.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "accrue/core/error.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/resnet.h"
#include "accrue/models/safetensors.h"
#include "accrue/models/vit.h"
#include "memory/thread_meter.h"
#include "train/checkpoint/checkpoint.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Room for scalars: an optimizer's step count.
constexpr std::int64_t scalars = 256;

std::unique_ptr<models::Model> make_model(const std::string& kind, std::uint64_t seed,
                                          std::int64_t width) {
  if (kind == "vit")
    return std::make_unique<models::Vit>(models::VitOptions{.layers = 1,
                                                            .heads = 2,
                                                            .width = width,
                                                            .patches = 4,
                                                            .classes = 5,
                                                            .image = {1, 8, 8},
                                                            .seed = seed});
  if (kind == "resnet")
    return std::make_unique<models::ResNet>(models::ResNetOptions{
        .layers = 8, .width = width / 4, .classes = 5, .image = {1, 8, 8}, .seed = seed});
  return std::make_unique<models::Gpt2>(models::Gpt2Options{
      .layers = 1, .heads = 2, .width = width, .context = 12, .vocab = 31, .seed = seed});
}

enum class Kind { adamw, adama, sgd };

struct Trained {
  std::unique_ptr<models::Model> model;
  std::unique_ptr<optim::Optimizer> optimizer;

  NamedParameters tensors() const {
    NamedParameters all = model->file_tensors();
    for (const NamedParameter& state : optimizer->state()) all.push_back(state);
    return all;
  }
};

Trained make(const std::string& model, Kind kind, std::uint64_t seed, std::int64_t width = 64) {
  Trained made{.model = make_model(model, seed, width), .optimizer = {}};
  const NamedParameters parameters = made.model->parameters();
  const auto groups = optim::default_groups(parameters, 0.1, false);
  made.optimizer = kind == Kind::sgd     ? optim::make_sgd(parameters, groups, {})
                   : kind == Kind::adama ? optim::make_adama(parameters, groups, {})
                                         : optim::make_adam(parameters, groups, {});
  for (const auto& [name, state] : made.optimizer->state())
    if (name != "step") state.fill_(static_cast<double>(seed));
  return made;
}

NamedParameters copies(const NamedParameters& tensors) {
  NamedParameters result;
  for (const auto& [name, tensor] : tensors) result.push_back({name, tensor.clone()});
  return result;
}

std::int64_t largest_bytes(const NamedParameters& tensors) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes = std::max(bytes, tensor.nbytes());
  return static_cast<std::int64_t>(bytes);
}

std::int64_t peak_of(const std::function<void()>& action) {
  const memory::ThreadMeter meter;
  action();
  return meter.peak();
}

class CheckpointLoading : public testing::TinyRun {
 protected:
  fs::path written(const Trained& trained) const {
    ModelConfig shape = config().model;
    shape.vocab = 31;
    const RunDirectory run(folder_ / "run");
    fs::create_directories(run.checkpoints());
    return write_checkpoint(run, checkpoint_content({.step = 3, .window = 3}, shape, *trained.model,
                                                    *trained.optimizer));
  }

  static std::string refusal(const fs::path& checkpoint, Trained& into) {
    try {
      VerifiedCheckpoint(checkpoint).load(*into.model, *into.optimizer);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }
};

TEST_F(CheckpointLoading, NeedsOneTensorBesideModelAndOptimizer) {
  for (const char* kind : {"gpt2", "vit", "resnet"})
    for (const Kind optimizer : {Kind::adamw, Kind::adama, Kind::sgd}) {
      SCOPED_TRACE(kind);
      const Trained saved = make(kind, optimizer, 3);
      const fs::path checkpoint = written(saved);
      Trained loaded = make(kind, optimizer, 4);
      const std::int64_t largest = largest_bytes(saved.tensors());
      EXPECT_LE(
          peak_of([&] { VerifiedCheckpoint(checkpoint).load(*loaded.model, *loaded.optimizer); }),
          largest + scalars);
      expect_same_bits(loaded.tensors(), saved.tensors());

      // The control: the meter detects tensors that were all read first.
      const fs::path file = checkpoint / "optimizer.safetensors";
      EXPECT_GT(
          peak_of([&] { loaded.optimizer->load_state(models::read_safetensors(file).tensors); }),
          largest + scalars);
    }
}

/// If the memory layout is that of the file, nothing at all.
TEST_F(CheckpointLoading, ReadsTheOptimizersStateInPlace) {
  const fs::path file = written(make("gpt2", Kind::adamw, 3)) / "optimizer.safetensors";
  const Trained loaded = make("gpt2", Kind::adamw, 4);
  EXPECT_LE(peak_of([&] { loaded.optimizer->load_state(models::open_safetensors(file).tensors); }),
            scalars);
}

TEST_F(CheckpointLoading, ChangesNothingInTheOneThatDoesNotFit) {
  for (const char* kind : {"gpt2", "vit", "resnet"}) {
    SCOPED_TRACE(kind);
    Trained loaded = make(kind, Kind::adamw, 4);
    const NamedParameters model = copies(loaded.model->file_tensors());
    const NamedParameters state = copies(loaded.optimizer->state());

    EXPECT_THAT(refusal(written(make(kind, Kind::adamw, 3, 32)), loaded), HasSubstr("shape"));
    expect_same_bits(loaded.model->file_tensors(), model);
    EXPECT_THAT(refusal(written(make(kind, Kind::sgd, 3)), loaded), HasSubstr("exp_avg."));
    expect_same_bits(loaded.optimizer->state(), state);
  }
}

TEST_F(CheckpointLoading, ChangesNothingWhereAFileIsCutShort) {
  const fs::path checkpoint = written(make("gpt2", Kind::adamw, 3));
  Trained loaded = make("gpt2", Kind::adamw, 4);
  const auto refused_without = [&](const char* file) {
    fs::resize_file(checkpoint / file, fs::file_size(checkpoint / file) - 1);
    EXPECT_THAT(refusal(checkpoint, loaded), ::testing::AllOf(HasSubstr(file), HasSubstr("bytes")));
  };
  const NamedParameters state = copies(loaded.optimizer->state());
  refused_without("optimizer.safetensors");
  expect_same_bits(loaded.optimizer->state(), state);

  loaded = make("gpt2", Kind::adamw, 5);
  const NamedParameters all = copies(loaded.tensors());
  refused_without("model.safetensors");
  expect_same_bits(loaded.tensors(), all);
}

}  // namespace
}  // namespace accrue::train
