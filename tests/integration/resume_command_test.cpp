#include "cli/arguments/resume_command.h"

#include <gtest/gtest.h>

namespace accrue::cli {
namespace {

using distributed::Launch;
using distributed::Launcher;

TEST(ResumeCommand, OfOneProcessIsTheCommandThatWasTyped) {
  EXPECT_EQ(resume_command("run.toml", {"optim.lr=1e-3"}, {}),
            "accrue train run.toml --optim.lr=1e-3 --resume");
}

TEST(ResumeCommand, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(resume_command("my run.toml", {"data.train=[\"a b\"]"}, {}),
            "accrue train 'my run.toml' '--data.train=[\"a b\"]' --resume");
  EXPECT_EQ(resume_command("it's.toml", {}, {}), "accrue train 'it'\\''s.toml' --resume");
}

TEST(ResumeCommand, OfRanksBeginsWithTheirLauncher) {
  const Launch on_one_machine{.world = 2, .local_world = 2, .how = Launcher::torchrun};
  EXPECT_EQ(resume_command("a.toml", {}, on_one_machine),
            "torchrun --no-python --nproc-per-node=2 accrue train a.toml --resume");
  const Launch on_three{.world = 6, .local_world = 2, .run_id = "none", .how = Launcher::torchrun};
  EXPECT_EQ(resume_command("a.toml", {}, on_three),
            "torchrun --no-python --nnodes=3 --nproc-per-node=2 accrue train a.toml --resume");
  EXPECT_EQ(resume_command("a.toml", {}, {.world = 4, .how = Launcher::mpirun}),
            "mpirun -n 4 accrue train a.toml --resume");
  EXPECT_EQ(resume_command("a.toml", {}, {.world = 4, .how = Launcher::srun}),
            "srun -n 4 accrue train a.toml --resume");
}

TEST(ResumeCommand, OfRanksStartedByHandIsTheirOwn) {
  EXPECT_EQ(resume_command("a.toml", {}, {.world = 2, .how = Launcher::torchrun}),
            "accrue train a.toml --resume");
}

}  // namespace
}  // namespace accrue::cli
