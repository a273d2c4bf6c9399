// The whole of accrue as a library: a config, a Trainer, a run.
//   train TEXT_FILE RUN_DIR
#include <accrue/core/error.h>
#include <accrue/memory/caching_allocator.h>
#include <accrue/train/trainer.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s TEXT_FILE RUN_DIR\n", argv[0]);
    return 2;
  }
  accrue::memory::install_caching_allocator();
  try {
    accrue::train::Config config;
    config.data.train = {argv[1]};
    config.data.val_fraction = 0.05;
    config.run.out = argv[2];
    config.run.steps = 30;
    config.model = {.layers = 2, .heads = 2, .width = 64, .context = 64};
    config.batch.tokens = 2048;  // what one optimizer step sees
    config.batch.micro = 4;      // 256 tokens at a time; leave it out and accrue chooses
    config.optim.lr = 3e-3;

    accrue::train::Trainer trainer(config);
    const accrue::train::RunResult result = trainer.run();
    std::printf("%lld steps, loss %.3f, held out %.3f; continue with --resume from %s\n",
                static_cast<long long>(result.step), result.loss.value(), result.eval_loss.value(),
                result.checkpoint.c_str());
    return 0;
  } catch (const accrue::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
