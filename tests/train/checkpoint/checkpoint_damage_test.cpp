// A checkpoint has all files of one write, or is refused with the name of the wrong file.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_store.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const std::vector<std::string> all_files{"model.safetensors", "optimizer.safetensors", "state.json",
                                         "manifest.json"};

class CheckpointDamage : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    config_ = config();
    config_.run.checkpoint_every = {2, Duration::Unit::steps};
    config_.run.keep = 3;
    Trainer(config_).run();
  }

  RunDirectory run() const { return RunDirectory(config_.run.out); }

  std::string damage(std::int64_t step) const {
    try {
      VerifiedCheckpoint(run().checkpoint(step));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "";
  }

  void edit_state(std::int64_t step, const std::function<void(json&)>& edit) const {
    const fs::path file = run().checkpoint(step) / "state.json";
    json state = json::parse(read_file(file));
    edit(state);
    write_file_atomically(file, state.dump());
  }

  /// Changes a checkpoint to the format before manifests existed.
  void make_old(std::int64_t step) const {
    const fs::path folder = run().checkpoint(step);
    fs::remove(folder / "manifest.json");
    edit_state(step, [&](json& state) {
      for (const char* name : {"model.safetensors", "optimizer.safetensors"})
        state["files"][name] = fs::file_size(folder / name);
    });
  }

  Config config_;
};

void flip_bit(const fs::path& file, std::uintmax_t bit) {
  std::string content = read_file(file);
  content[bit / 8] = static_cast<char>(content[bit / 8] ^ (1 << bit % 8));
  std::ofstream(file, std::ios::binary) << content;
}

TEST_F(CheckpointDamage, AnyFlippedBitIsSeenAndItsFileNamed) {
  EXPECT_EQ(damage(6), "") << "the control: nothing was changed";
  for (const std::string& name : all_files) {
    const fs::path file = run().checkpoint(6) / name;
    const std::uintmax_t bits = fs::file_size(file) * 8;
    for (std::uintmax_t bit = 0; bit < bits; bit += bits / 61) {
      flip_bit(file, bit);
      EXPECT_NE(damage(6), "") << name << ", bit " << bit;
      // A manifest has a checksum or a length of each file: a changed digit of either is detected.
      if (name == "manifest.json") {
        EXPECT_THAT(damage(6), AnyOf(HasSubstr("as it was written"), HasSubstr(" bytes"))) << bit;
      } else {
        EXPECT_THAT(damage(6), HasSubstr(name)) << bit;
      }
      flip_bit(file, bit);
    }
  }
  EXPECT_EQ(damage(6), "");
}

TEST_F(CheckpointDamage, NamesTheTensor) {
  const fs::path file = run().checkpoint(6) / "model.safetensors";
  flip_bit(file, (fs::file_size(file) - 1) * 8);
  EXPECT_THAT(damage(6), HasSubstr("tensor \"transformer."));
}

TEST_F(CheckpointDamage, FilesOfAnotherStepAreSeen) {
  for (const std::string& name : all_files) {
    const fs::path kept = folder_ / "kept";
    fs::rename(run().checkpoint(6) / name, kept);
    fs::copy_file(run().checkpoint(4) / name, run().checkpoint(6) / name);
    EXPECT_NE(damage(6), "") << name;
    fs::rename(kept, run().checkpoint(6) / name);
  }
  EXPECT_EQ(damage(6), "");
  fs::rename(run().checkpoint(4), run().checkpoint(8));
  EXPECT_THAT(damage(8), HasSubstr("step 8"));
}

TEST_F(CheckpointDamage, CutShortOrMissingFilesAreSeen) {
  for (const std::string& name : all_files) {
    const fs::path file = run().checkpoint(6) / name;
    const std::string content = read_file(file);
    for (const std::size_t length : {std::size_t{0}, content.size() / 2, content.size() - 1}) {
      std::ofstream(file, std::ios::binary) << content.substr(0, length);
      // The last byte of a text file is the end of its last line.
      const bool same_json = name == "manifest.json" && length + 1 == content.size();
      EXPECT_EQ(damage(6).empty(), same_json) << name << " of " << length << " bytes";
    }
    fs::remove(file);
    EXPECT_NE(damage(6), "") << name;
    write_file_atomically(file, content);
  }
  EXPECT_EQ(damage(6), "");
}

TEST_F(CheckpointDamage, ARunGoesOnFromTheNewestThatIsWhole) {
  const NamedParameters expected = parameters_of(config_);
  for (const std::string& name : all_files) {
    const fs::path file = run().checkpoint(6) / name;
    // The first byte of a header is the lowest byte of its length.
    flip_bit(file, name.ends_with("safetensors") ? (fs::file_size(file) - 5) * 8 : 0);
    Trainer trainer(config_);
    const auto recorder = std::make_shared<testing::Recorder>();
    trainer.add_observer(recorder);
    trainer.run({.resume = true});
    EXPECT_TRUE(recorder->has_event("checkpoint_skipped")) << name;
    EXPECT_EQ(recorder->steps.size(), 2u) << name;
    expect_same_bits(parameters_of(config_), expected);
  }
}

/// Earlier versions wrote such checkpoints.
TEST_F(CheckpointDamage, AModelThatIsNotFiniteIsNotWhole) {
  const fs::path file = run().checkpoint(6) / "model.safetensors";
  const models::TensorFile model = models::read_safetensors(file);
  const NamedParameter& changed = model.tensors.at(1);
  make_old(6);
  EXPECT_EQ(damage(6), "") << "the control: finite";
  for (const double value : {std::nan(""), HUGE_VAL}) {
    changed.tensor.view(-1)[0] = value;
    models::write_safetensors(file, model.tensors, model.metadata);
    EXPECT_THAT(damage(6), AllOf(HasSubstr("tensor \"" + changed.name + "\""),
                                 HasSubstr("with a NaN or an infinity")));
    EXPECT_THAT(usage_message([&] { load_model(run(), std::nullopt); }), HasSubstr(changed.name));
    EXPECT_EQ(list_checkpoints(run(), Thoroughness::contents).back().damage, damage(6));
  }
  const auto recorder = std::make_shared<testing::Recorder>();
  Trainer trainer(config_);
  trainer.add_observer(recorder);
  trainer.run({.resume = true});
  EXPECT_TRUE(recorder->has_event("checkpoint_skipped"));
  EXPECT_EQ(damage(6), "") << "the step was taken again, from step 4";
}

/// A step after which all parameters are not finite.
TEST_F(CheckpointDamage, AModelThatIsNotFiniteIsNotWritten) {
  Config c = config_;
  c.run.out = (folder_ / "diverged").string();
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.optim.kind = OptimizerKind::sgd;
  c.optim.clip = c.optim.weight_decay = 0;
  c.optim.lr = 1e10;
  std::int64_t steps = 0;
  const auto with_gradients = [&](accum::MeanGradient& gradient) {
    const double value = ++steps == 3 ? 1e35 : 0;
    for (const at::Tensor& flat : gradient.buffer().flat()) flat.fill_(value);
  };
  Trainer trainer(c);
  trainer.set_gradient_hook(with_gradients);
  std::string told;
  try {
    trainer.run();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    told = error.what();
  }
  EXPECT_THAT(told, AllOf(HasSubstr("checkpoint of step 3"), HasSubstr("'transformer."),
                          HasSubstr("with a NaN or an infinity after step 3")));
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps(), (std::vector<std::int64_t>{1, 2}));
  Trainer again(c);
  steps = 3;
  again.set_gradient_hook(with_gradients);
  EXPECT_EQ(again.run({.resume = true}).step, 6);
}

TEST_F(CheckpointDamage, ARunIsNotBegunAgainWhereAllAreDamaged) {
  for (const std::int64_t step : run().checkpoint_steps())
    flip_bit(run().checkpoint(step) / "model.safetensors", 0);
  EXPECT_THAT(usage_message([&] { Trainer(config_).run({.resume = true}); }),
              AllOf(HasSubstr("step-00000002"), HasSubstr("step-00000006")));
  EXPECT_EQ(run().checkpoint_steps().size(), 3u);
}

TEST_F(CheckpointDamage, TheOneThatIsAskedForIsRefused) {
  flip_bit(run().checkpoint(4) / "optimizer.safetensors", 0);
  EXPECT_THAT(usage_message([&] { Trainer(config_).run({.resume = true, .checkpoint = "4"}); }),
              HasSubstr("optimizer.safetensors"));
  flip_bit(run().checkpoint(6) / "model.safetensors", 70'000);
  EXPECT_THAT(usage_message([&] { load_model(run(), 6); }), HasSubstr("model.safetensors"));
}

TEST_F(CheckpointDamage, OneOfAnEarlierVersionIsComparedByItsLengths) {
  make_old(6);
  EXPECT_EQ(damage(6), "");
  EXPECT_FALSE(VerifiedCheckpoint(run().checkpoint(6)).has_checksums());
  EXPECT_TRUE(VerifiedCheckpoint(run().checkpoint(4)).has_checksums());
  Trainer trainer(config_);
  const auto recorder = std::make_shared<testing::Recorder>();
  trainer.add_observer(recorder);
  trainer.run({.resume = true});
  EXPECT_TRUE(recorder->has_event("checkpoint"));

  fs::remove(run().checkpoint(4) / "manifest.json");
  EXPECT_THAT(damage(4), HasSubstr("manifest.json")) << "a new one does not pass as an old one";
}

/// Checksums do not protect against values that were written by hand, or by an earlier version.
TEST_F(CheckpointDamage, ValuesThatNoRunHasAreRefused) {
  make_old(6);
  const auto refused = [&](const std::string& pointer, const json& value) {
    const fs::path file = run().checkpoint(6) / "state.json";
    const std::string before = read_file(file);
    edit_state(6, [&](json& state) { state[json::json_pointer(pointer)] = value; });
    EXPECT_NE(damage(6), "") << pointer << " = " << value;
    write_file_atomically(file, before);
  };
  for (const char* pointer : {"/step", "/window", "/samples", "/tokens", "/plan/micro_batch",
                              "/plan/micro_batch_now", "/plan/quiet_windows"})
    for (const json& value :
         {json(-1), json(1.5), json("6"), json(nullptr), json(std::uint64_t{1} << 63U)})
      refused(pointer, value);
  refused("/step", 5);
  refused("/window", 5);
  refused("/plan/micro_batch", 0);
  refused("/plan/micro_batch_now", 0);
  refused("/plan/micro_batch_now", 1000);
  refused("/plan/recompute", "sometimes");
  refused("/elapsed", -1);
  refused("/data/fingerprint", 7);
  refused("/units", json::array({1 << 20}));
  refused(
      "/ranks",
      json::array(
          {{{"micro_batch", 0}, {"recompute", "none"}, {"seconds_per_sample", json::array()}}}));
  refused("/best", {{"eval_loss", nullptr}, {"step", 4}});
  refused("/best", {{"eval_loss", 1.5}, {"step", 400}});
  EXPECT_EQ(damage(6), "") << "the control";
}

TEST_F(CheckpointDamage, AWindowBeyondTheRunIsRefused) {
  make_old(6);
  edit_state(6, [](json& state) { state["window"] = 7; });
  EXPECT_THAT(usage_message([&] { Trainer(config_).run({.resume = true}); }), HasSubstr("7 steps"));
}

}  // namespace
}  // namespace accrue::train
