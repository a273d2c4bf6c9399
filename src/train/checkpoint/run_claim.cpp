#include "train/checkpoint/run_claim.h"

#include <ATen/record_function.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ios>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/open_file.h"
#include "observe/tensorboard/event_files.h"
#include "train/checkpoint/checkpoint_folders.h"
#include "train/checkpoint/environment.h"
#include "train/checkpoint/run_info.h"
#include "train/checkpoint/run_links.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path lock_file(const RunDirectory& run) { return run.root() / ".accrue-lock"; }

std::string name_of(const RunDirectory& run) { return "run directory " + run.root().string(); }

Error cannot_write(const RunDirectory& run, const std::string& reason) {
  return usage_error(name_of(run), "a place that can be written", reason, "another run.out");
}

/// The contents of the lock file.
json text_of(int descriptor) {
  std::string text(512, '\0');
  const ssize_t got = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

bool is_of_run(const json& who, const std::string& run) {
  return who.is_object() && who.value("run", json()) == json(run);
}

/// The holder of the lock, from the file; none if the file does not name one yet, or still names a
/// process that was killed.
std::optional<std::string> named_holder(int descriptor) {
  const json who = text_of(descriptor);
  try {
    const auto process = who.at("process").get<std::int64_t>();
    const auto host = who.at("host").get<std::string>();
    const bool is_gone =
        host == host_name() && ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
    if (is_gone) return std::nullopt;
    return "process " + std::to_string(process) + " on " + host + ", since " +
           who.at("since").get<std::string>();
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

/// The holder of the lock; waits a moment for a process that has it and is about to write its name.
std::string holder(int descriptor) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (const auto who = named_holder(descriptor)) return *who;
    RECORD_USER_SCOPE("claim: name");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "another process";
}

/// Returns 0, or the system's error. A process that checks whether the run is claimed
/// (observe::is_claimed) holds the lock for an instant, so this keeps trying for a moment.
int take_lock(int descriptor) {
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || attempt >= kAttempts) return errno;
    RECORD_USER_SCOPE("claim: lock");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Whether there are no locks here: the file system has none, or the system allows none (EPERM and
/// EACCES: a container's seccomp profile, a file server).
bool is_lockless(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == ENOLCK || error == EINVAL ||
         error == EPERM || error == EACCES;
}

Error cannot_lock(const RunDirectory& run, int error) {
  return runtime_error(name_of(run), "a file in it that can be locked", std::strerror(error),
                       "another run.out");
}

}  // namespace

std::string RunTenure::new_name() {
  std::random_device random;
  std::ostringstream name;
  for (int word = 0; word < 4; ++word) name << std::hex << random();
  return name.str();
}

RunClaim::RunClaim(const RunDirectory& run, RunTenure tenure)
    : run_(run), tenure_(std::move(tenure)) {
  // Another process may remove the folder or the file between two calls, as it releases the run.
  constexpr int kAttempts = 100;
  try {
    int attempt = 0;
    do {
      if (attempt++ == kAttempts) throw cannot_write(run_, "a folder that comes and goes");
      make_folder();
    } while (!open_lock());
    for (std::string& remark : links_of_run(run_)) remarks_.push_back(std::move(remark));
    write_holder();
  } catch (...) {
    release();
    throw;
  }
}

RunClaim::~RunClaim() { release(); }

void RunClaim::expect_folder(const RunDirectory& run) {
  std::error_code error;
  const fs::file_status status = fs::status(run.root(), error);
  if (fs::is_directory(status) || !fs::exists(fs::symlink_status(run.root(), error))) return;
  throw usage_error(name_of(run), "a folder, or nothing yet",
                    fs::exists(status) ? "a file" : "a link to nothing", "another run.out");
}

void RunClaim::make_folder() {
  std::error_code error;
  if (fs::is_directory(run_.root(), error)) return;
  expect_folder(run_);
  std::vector<fs::path> missing;
  for (fs::path path = fs::absolute(run_.root()); !fs::exists(path, error) && path.has_filename();
       path = path.parent_path())
    missing.insert(missing.begin(), path);
  for (const fs::path& path : missing)
    if (fs::create_directory(path, error))
      made_folders_.push_back(path);
    else if (error)
      throw cannot_write(run_, error.message());
}

bool RunClaim::open_lock() {
  OpenedFile opened = open_to_change(lock_file(run_), O_RDWR);
  if (opened.error == ENOENT) return false;
  if (opened.error != 0) throw cannot_write(run_, opened.obstacle);
  if (!opened) throw foreign_entry_error(lock_file(run_), opened.obstacle);
  descriptor_ = std::move(opened.file);
  if (const int error = take_lock(descriptor_.get())) {
    if (supersedes_holder()) {
      replace_lock();
      return true;
    }
    if (error == EWOULDBLOCK) {
      const std::string who = holder(descriptor_.get());
      descriptor_.reset();
      throw usage_error(name_of(run_), "a run that no other process works on",
                        "one that is held by " + who, "waiting for it to end, or another run.out");
    }
    if (!is_lockless(error)) {
      descriptor_.reset();
      throw cannot_lock(run_, error);
    }
    remarks_.push_back("the run directory cannot be locked (" + std::string(std::strerror(error)) +
                       "): nothing keeps a second process from the same run.out");
  }
  if (is_held()) return true;
  descriptor_.reset();
  return false;
}

/// Whether the lock is held for an earlier group of this run. The first rank of a group stays first
/// while it is in it: so that process is no longer in this group.
bool RunClaim::supersedes_holder() const {
  const json who = text_of(descriptor_.get());
  return is_of_run(who, tenure_.run) && who.value("generation", json()).is_number_integer() &&
         who["generation"].get<std::int64_t>() < tenure_.generation;
}

/// The other process then holds a lock on a file without a name.
void RunClaim::replace_lock() {
  const fs::path own = lock_file(run_).string() + "." + std::to_string(::getpid());
  ::unlink(own.c_str());
  OpenedFile made = create_file(own, O_RDWR);
  descriptor_ = std::move(made.file);
  if (!descriptor_) throw cannot_write(run_, made.obstacle);
  const int error = take_lock(descriptor_.get());
  if (error != 0 && !is_lockless(error)) throw cannot_lock(run_, error);
  write_holder();
  if (::rename(own.c_str(), lock_file(run_).c_str()) != 0)
    throw cannot_write(run_, std::strerror(errno));
}

void RunClaim::write_holder() const {
  const std::string text = json{{"host", host_name()},
                                {"process", ::getpid()},
                                {"since", now_iso()},
                                {"run", tenure_.run},
                                {"generation", tenure_.generation}}
                               .dump() +
                           "\n";
  // The name is for people: a disk without room for it does not matter here.
  if (::ftruncate(descriptor_.get(), 0) == 0)
    (void)!::pwrite(descriptor_.get(), text.data(), text.size(), 0);
}

bool RunClaim::is_held() const {
  struct stat held {
  }, found{};
  return ::fstat(descriptor_.get(), &held) == 0 && ::stat(lock_file(run_).c_str(), &found) == 0 &&
         held.st_ino == found.st_ino && held.st_dev == found.st_dev;
}

void RunClaim::check_there() const {
  if (is_held()) return;
  std::error_code error;
  if (const OpenedFile now = open_to_read(lock_file(run_))) {
    const bool is_taken_over = is_of_run(text_of(now.file.get()), tenure_.run);
    const std::string who = holder(now.file.get());
    if (is_taken_over)
      throw runtime_error(name_of(run_), "to be held by this process",
                          "one that the other ranks, which went on without it, took over: " + who,
                          "starting this rank again, to join them");
  }
  throw runtime_error(
      name_of(run_), "the folder that the run began in",
      fs::exists(run_.root(), error) ? "another one in its place" : "none: it was deleted or moved",
      "run.out at the place it was moved to, with --resume");
}

void RunClaim::create(const Config& config, const std::string& run_json,
                      const KeptTokenizer& tokenizer) {
  try {
    // Metrics and event files are written by the sinks, into a folder that had none.
    made_files_ = {run_.config_file(), run_.run_file(), run_.metrics_file()};
    write_tokenizer(tokenizer);
    write_file_atomically(run_.config_file(), to_toml(config));
    write_file_atomically(run_.run_file(), run_json);
    fs::create_directory(run_.checkpoints());
  } catch (const std::exception& error) {
    abandon();
    throw usage_error("create " + name_of(run_), "a place that can be written", error.what(),
                      "another run.out");
  }
}

void RunClaim::write_tokenizer(const KeptTokenizer& tokenizer) {
  if (tokenizer.files().empty()) return;
  for (const auto& [name, content] : tokenizer.files()) {
    const fs::path copy = run_.tokenizer_folder() / name;
    fs::create_directories(copy.parent_path());
    made_files_.push_back(copy);
    write_file_atomically(copy, content);
  }
}

void RunClaim::abandon() {
  if (made_files_.empty() || !is_held() || !run_.checkpoint_steps().empty()) return;
  std::error_code ignored;
  for (const fs::path& path : made_files_) fs::remove(path, ignored);
  observe::remove_event_files(run_.tensorboard_folder());
  sweep(run_);
  fs::remove(run_.tokenizer_folder() / data::kChatTemplateFolder, ignored);
  fs::remove(run_.tokenizer_folder(), ignored);
  fs::remove(run_.checkpoints(), ignored);
  made_files_.clear();
}

void RunClaim::release() {
  if (descriptor_) {
    const bool is_ours = is_held();
    // Before the lock is released: a process that opened the file meanwhile can see that it is no
    // longer the folder's.
    if (is_ours) ::unlink(lock_file(run_).c_str());
    descriptor_.reset();
    if (!is_ours) return;  // the file in its place now belongs to another process
  }
  std::error_code ignored;
  for (auto folder = made_folders_.rbegin(); folder != made_folders_.rend(); ++folder)
    fs::remove(*folder, ignored);
}

}  // namespace accrue::train
