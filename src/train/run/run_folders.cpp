#include "train/run/run_folders.h"

#include <chrono>
#include <filesystem>

#include "train/checkpoint/checkpoint_folders.h"

namespace accrue::train {

void check_folders(const RunCopies& copies, bool resume) {
  RunClaim::expect_folder(copies.own());
  if (copies.own().holds_run()) const RunClaim probe(copies.own());
  copies.check_own(resume);
  copies.check_replica(resume);
}

RunOptions settled(RunOptions options, const RunCopies& copies) {
  if (options.may_begin) options.resume = options.resume && copies.hold_run();
  return options;
}

RunFolders claim_folders(const RunCopies& copies, bool resume, const RunTenure& tenure) {
  RunFolders folders;
  folders.claim = std::make_unique<RunClaim>(copies.own(), tenure);
  copies.check_own(resume);
  if (copies.replica()) folders.replica = std::make_unique<Replica>(copies, tenure);
  if (resume) {
    folders.restored = copies.restore_record();
    std::error_code shows_when_one_is_written;
    std::filesystem::create_directory(copies.own().checkpoints(), shows_when_one_is_written);
  }
  sweep(copies.own());
  return folders;
}

void finish_copies(Replica& replica, std::int64_t step,
                   const std::function<void(const std::string&)>& tell) {
  constexpr std::chrono::seconds unnoticed(2);
  if (!replica.finish_within(unnoticed))
    tell("the run has ended and waits until its last checkpoint is copied to " +
         replica.path().string());
  replica.finish();
  replica.copy_end(step);
  for (const std::string& remark : replica.take_remarks()) tell(remark);
}

}  // namespace accrue::train
