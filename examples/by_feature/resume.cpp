// A run that is stopped in the middle of a window and continued ends with the same bits as one that
// was not.
//   resume TEXT_FILE FOLDER
#include <accrue/core/error.h>
#include <accrue/train/run_directory.h>
#include <accrue/train/trainer.h>

#include <csignal>
#include <cstdio>

namespace {

namespace train = accrue::train;

/// Stands for Ctrl-C, or a scheduler's SIGTERM, at some micro-batch.
class StopAfter : public accrue::Observer {
 public:
  explicit StopAfter(int micro_batches) : left_(micro_batches) {}
  void on_micro_batch(std::int64_t, std::int64_t) override {
    if (--left_ == 0) std::raise(SIGTERM);
  }

 private:
  int left_;
};

train::Config config(const std::string& text, const std::string& out) {
  train::Config c;
  c.data.train = {text};
  c.run.out = out;
  c.run.steps = 8;
  c.model = {.layers = 2, .heads = 2, .width = 32, .context = 32, .dropout = 0.1};
  c.batch.tokens = 512;
  c.batch.micro = 4;
  c.observe.progress = accrue::observe::ProgressStyle::off;
  return c;
}

bool same_bits(const std::string& a, const std::string& b) {
  const auto left = train::load_model(train::RunDirectory(a), std::nullopt)->parameters();
  const auto right = train::load_model(train::RunDirectory(b), std::nullopt)->parameters();
  for (std::size_t i = 0; i < left.size(); ++i)
    if (!left[i].tensor.equal(right[i].tensor)) return false;
  return left.size() == right.size();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s TEXT_FILE FOLDER\n", argv[0]);
    return 2;
  }
  const std::string straight = std::string(argv[2]) + "/straight";
  const std::string broken = std::string(argv[2]) + "/broken";
  try {
    train::Trainer(config(argv[1], straight)).run();

    train::Trainer first(config(argv[1], broken));
    first.add_observer(std::make_shared<StopAfter>(14));
    const train::RunResult stopped = first.run();
    std::printf("stopped after step %lld\n", static_cast<long long>(stopped.step));
    train::Trainer(config(argv[1], broken)).run({.resume = true});

    const bool same = same_bits(straight, broken);
    std::printf("parameters are %s\n", same ? "the same to the bit" : "DIFFERENT");
    return same ? 0 : 1;
  } catch (const accrue::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
