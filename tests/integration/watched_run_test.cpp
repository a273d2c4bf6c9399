// Each problem that a run reports with its suspected cause, planted.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "support/png.h"

namespace accrue::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WatchedRun : public AccrueProgram {
 protected:
  /// Trains with run.toml and returns the events of this name.
  std::vector<json> events_of_run(const std::string& name, Words more = {}) const {
    Words words{"train", "run.toml"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    std::vector<json> events;
    std::istringstream content(read_file(folder_ / "out/metrics.jsonl"));
    for (std::string line; std::getline(content, line);)
      if (json parsed = json::parse(line); parsed.value("event", "") == name) {
        EXPECT_THAT(result.errors, HasSubstr(name + ": ")) << "it is shown, too";
        events.push_back(std::move(parsed));
      }
    return events;
  }

  /// The same line of 16 bytes, which is quickly learned, for `windows` windows of eight samples;
  /// the window of step `odd_step` has noise instead.
  void write_text_with_one_odd_window(int windows, int odd_step) const {
    std::mt19937 random(5);
    std::string text;
    for (int window = 1; window <= windows; ++window)
      for (int byte = 0; byte < 8 * 16; ++byte)
        text += window == odd_step ? static_cast<char>('!' + random() % 90)
                                   : "the same line.\n "[byte % 16];
    write("text.txt", text + "t");
    write("run.toml",
          "[run]\nout = \"out\"\nsteps = " + std::to_string(windows) +
              "\nthreads = 1\n[model]\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 16\n"
              "[data]\ntrain = [\"text.txt\"]\norder = \"sequential\"\n"
              "[batch]\nsamples = 8\nmicro = 4\n[optim]\nlr = 1e-2\n");
  }
};

TEST_F(WatchedRun, NamesTheSamplesOfALossThatSpikes) {
  write_text_with_one_odd_window(60, 45);
  const std::vector<json> spikes = events_of_run("loss_spike");
  ASSERT_EQ(spikes.size(), 1U);
  EXPECT_EQ(spikes[0]["step"], 45);
  EXPECT_THAT(spikes[0]["reason"].get<std::string>(),
              AllOf(HasSubstr("its samples are suspected"),
                    HasSubstr("samples 352, 353, 354, 355, 356, 357, 358, 359")));
  std::filesystem::remove_all(folder_ / "out");
  write_text_with_one_odd_window(60, /*odd_step=*/0);
  EXPECT_THAT(events_of_run("loss_spike"), IsEmpty());
}

TEST_F(WatchedRun, TellsUpdatesThatAreTooRareForTheSchedule) {
  write_small_run();
  const std::vector<json> warmup =
      events_of_run("rare_updates", {"--run.steps=3", "--optim.schedule.warmup=3"});
  ASSERT_EQ(warmup.size(), 1U);
  EXPECT_THAT(warmup[0]["reason"].get<std::string>(),
              AllOf(HasSubstr("the warm-up of 3 steps takes the whole run of 3 steps"),
                    HasSubstr("optim.schedule.warmup is suspected")));
  const auto of_an_epoch = [&](const std::string& samples) {
    std::filesystem::remove_all(folder_ / "out");
    std::string config = read_file(folder_ / "run.toml");
    if (const auto at = config.find("steps = 4"); at != std::string::npos)
      write("run.toml", config.replace(at, 9, "epochs = 1"));
    return events_of_run("rare_updates", {"--batch.samples=" + samples});
  };
  const std::vector<json> few = of_an_epoch("256");
  ASSERT_EQ(few.size(), 1U);
  EXPECT_THAT(few[0]["reason"].get<std::string>(),
              HasSubstr("the batch of 256 samples is suspected"));
  EXPECT_THAT(of_an_epoch("32"), IsEmpty());
}

TEST_F(WatchedRun, TellsInputThatIsSlowerThanCompute) {
  constexpr int side = 3200;
  std::mt19937 random(5);
  std::string pixels(3 * side * side, '\0');
  for (char& value : pixels) value = static_cast<char>(random());
  for (const char* name : {"images/a/1.png", "images/b/2.png"}) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write(name, png_of(side, side, 3, pixels));
  }
  write("run.toml",
        "[run]\nout = \"out\"\nsteps = 22\nthreads = 1\ncheckpoint_every = 22\n"
        "[model]\nkind = \"vit\"\nlayers = 1\nheads = 1\nwidth = 8\n"
        "[data]\ntrain = [\"images/*/*.png\"]\nimage = 16\n[batch]\nsamples = 2\nmicro = 1\n");
  const std::vector<json> slow = events_of_run("slow_input");
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_THAT(slow[0]["reason"].get<std::string>(),
              AllOf(HasSubstr("of their time for input"), HasSubstr("decoding images")));
}

}  // namespace
}  // namespace accrue::testing
