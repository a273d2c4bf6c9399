// Checkpoints are written while the next window runs, from the live tensors.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string_view>

#include "accrue/models/resnet.h"
#include "accrue/models/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

TEST(CheckpointWriter, WritesBesideAndFinishesOnDemand) {
  CheckpointWriter writer;
  std::promise<void> go;
  bool written = false;
  writer.start([&, wait = go.get_future().share()] {
    wait.wait();
    written = true;
  });
  EXPECT_FALSE(written);
  go.set_value();
  writer.finish();
  EXPECT_TRUE(written);
  EXPECT_NO_THROW(writer.finish());
}

TEST(CheckpointWriter, ThrowsTheErrorOnceAndGoesOn) {
  CheckpointWriter writer;
  writer.start([] { throw std::runtime_error("the disk is full"); });
  EXPECT_THROW(writer.finish(), std::runtime_error);
  EXPECT_NO_THROW(writer.finish());
  bool written = false;
  writer.start([&] { written = true; });
  writer.finish();
  EXPECT_TRUE(written);
}

TEST(CheckpointContent, SharesParametersAndCopiesWhatAForwardPassChanges) {
  models::ResNet model({.layers = 8, .width = 4, .classes = 5, .image = {1, 8, 8}, .seed = 1});
  const auto optimizer = optim::make_sgd(model.parameters(),
                                         optim::default_groups(model.parameters(), 0.1, false), {});
  const CheckpointContent content = checkpoint_content({}, {}, model, *optimizer);
  const at::NoGradGuard no_grad;
  for (const NamedParameter& buffer : model.buffers()) at::Tensor(buffer.tensor).add_(1);
  std::size_t shared = 0, copied = 0;
  const NamedParameters live = model.file_tensors();
  ASSERT_EQ(content.model.size(), live.size());
  for (std::size_t i = 0; i < live.size(); ++i) {
    const bool shares = content.model[i].tensor.is_alias_of(live[i].tensor);
    EXPECT_EQ(shares, at::equal(content.model[i].tensor, live[i].tensor)) << live[i].name;
    (shares ? shared : copied) += 1;
  }
  EXPECT_EQ(shared, model.parameters().size());
  EXPECT_EQ(copied, model.buffers().size());
}

/// While it exists, a checkpoint's write begins only when the training waits for it: at the end of
/// the next window.
class LateWriter {
 public:
  LateWriter()
      : handle_(at::addGlobalCallback(
            at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::USER_SCOPE}))) {}
  ~LateWriter() { at::removeCallback(handle_); }
  LateWriter(const LateWriter&) = delete;
  LateWriter& operator=(const LateWriter&) = delete;

 private:
  static void note(bool waits) {
    const std::lock_guard lock(mutex_);
    waits_ = waits;
    changed_.notify_all();
  }
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& span) {
    const std::string_view name = span.name();
    if (name == "checkpoint: wait") note(true);
    if (name == "checkpoint: write") {
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [] { return waits_; }));
    }
    return nullptr;
  }
  static void end(const at::RecordFunction& span, at::ObserverContext*) {
    if (std::string_view(span.name()) == "checkpoint: wait") note(false);
  }

  static inline std::mutex mutex_;
  static inline std::condition_variable changed_;
  static inline bool waits_ = false;
  at::CallbackHandle handle_;
};

class CheckpointWriting : public testing::TinyRun {
 protected:
  /// Computes in one thread, so that the thread sanitizer only judges the writer's.
  static Config one_thread(Config config) {
    config.run.threads = 1;
    return config;
  }
  static NamedParameters tensors_of(const std::filesystem::path& checkpoint) {
    NamedParameters all = models::read_safetensors(checkpoint / "model.safetensors").tensors;
    for (const NamedParameter& state :
         models::read_safetensors(checkpoint / "optimizer.safetensors").tensors)
      all.push_back(state);
    return all;
  }

  /// The run ends after step `last` with an error: its last save then runs next to nothing else.
  RunDirectory run_until(std::int64_t last, const Config& config) const {
    Trainer trainer(config);
    std::int64_t steps = 0;
    trainer.set_gradient_hook([&](accum::MeanGradient&) {
      if (steps++ == last) throw std::runtime_error("enough");
    });
    EXPECT_THROW(trainer.run(), std::runtime_error);
    return RunDirectory(config.run.out);
  }
};

TEST_F(CheckpointWriting, HoldsItsOwnStepThoughTrainingWentOn) {
  Config every = one_thread(config("every"));
  every.run.checkpoint_every = {1, Duration::Unit::steps};
  every.run.keep = 100;
  const LateWriter late;
  const RunDirectory beside = run_until(5, every);
  for (const std::int64_t step : {1, 4}) {
    Config once = one_thread(config("until" + std::to_string(step)));
    once.run.checkpoint_every = {1000, Duration::Unit::steps};
    const NamedParameters alone = tensors_of(run_until(step, once).checkpoint(step));
    expect_same_bits(tensors_of(beside.checkpoint(step)), alone);
    EXPECT_FALSE(at::equal(tensors_of(beside.checkpoint(step + 1))[0].tensor, alone[0].tensor));
  }
}

}  // namespace
}  // namespace accrue::train
