#include "train/workload/held_out_remarks.h"

#include <gmock/gmock.h>

#include <fstream>

#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class HeldOutRemarks : public testing::TinyRun {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& line) const {
    std::ofstream file(folder_ / name);
    for (int i = 0; i < 40; ++i) file << line << i << "\n";
    return path(name);
  }

  Config with_val(const std::vector<std::string>& val) const {
    Config c = config();
    c.data.val_fraction = 0;
    c.data.val = val;
    return c;
  }
  static std::vector<std::string> remarks_on(Config c) {
    const Datasets sets = open_data(c);
    return held_out_remarks(c, sets);
  }
};

TEST_F(HeldOutRemarks, NameAFileThatIsTrainedOn) {
  EXPECT_THAT(remarks_on(with_val({path("text.txt")})),
              ElementsAre(HasSubstr("data.train has all of data.val as well, " + path("text.txt") +
                                    ": the validation loss shows how well this was memorized; "
                                    "try other files in data.val, or data.val_fraction = 0.05")));
}

TEST_F(HeldOutRemarks, NameACopyAndALinkByBothNames) {
  std::filesystem::copy_file(path("text.txt"), path("copy.txt"));
  std::filesystem::create_symlink(path("text.txt"), path("link.txt"));
  for (const std::string& name : {path("copy.txt"), path("link.txt")})
    EXPECT_THAT(remarks_on(with_val({name})),
                ElementsAre(HasSubstr(name + " (as " + path("text.txt") + ")")));
}

TEST_F(HeldOutRemarks, NameThePartThatIsTrainedOn) {
  Config c = with_val({path("text.txt"), write("other.txt", "other words ")});
  EXPECT_THAT(remarks_on(c),
              ElementsAre(AllOf(HasSubstr("a part of data.val as well"),
                                HasSubstr(path("text.txt") + ":"), Not(HasSubstr("other.txt")))));
  c.data.exclude = {path("text.txt")};
  c.data.train.push_back(write("third.txt", "and more of them "));
  EXPECT_THAT(remarks_on(c), IsEmpty()) << "it is left out of both";
}

TEST_F(HeldOutRemarks, AreNotMadeOfOtherFilesOrOfAFraction) {
  EXPECT_THAT(remarks_on(with_val({write("other.txt", "other words ")})), IsEmpty());
  EXPECT_THAT(remarks_on(config()), IsEmpty());
  Config without = config();
  without.data.val_fraction = 0;
  EXPECT_THAT(remarks_on(without), IsEmpty());
}

TEST_F(HeldOutRemarks, AreAnEventOfTheStart) {
  const auto events_of = [](const Config& c) {
    Trainer trainer(c);
    const auto recorder = std::make_shared<testing::Recorder>();
    trainer.add_observer(recorder);
    trainer.run();
    std::string said;
    for (const Event& event : recorder->events)
      if (event.name == "data" && event.step == 0) said += event.reason;
    return said;
  };
  EXPECT_THAT(events_of(with_val({path("text.txt")})), HasSubstr("all of data.val as well"));
  EXPECT_THAT(events_of(config("second")), Not(HasSubstr("as well")));
}

}  // namespace
}  // namespace accrue::train
