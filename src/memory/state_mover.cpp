#include "memory/state_mover.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"
#include "core/helper_thread.h"
#include "memory/disk_traffic.h"

namespace accrue::memory {
namespace {

/// A request may be replaced between two pieces.
constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

template <class Use>
bool for_pieces(const std::vector<FileRange>& ranges, const Use& use) {
  for (const FileRange& range : ranges)
    for (std::size_t at = range.begin; at < range.end; at += kPieceBytes)
      if (!use(FileRange{at, std::min(at + kPieceBytes, range.end)})) return false;
  return true;
}

}  // namespace

StateMover::StateMover(std::shared_ptr<const StateFile> file) : file_(std::move(file)) {
  thread_ = start_thread([this] { work(); });
}

StateMover::~StateMover() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StateMover::request(Request request) {
  if (!thread_.joinable()) {
    const Stopwatch watch;
    fulfil(request);
    {
      const std::lock_guard lock(mutex_);
      wait_seconds_ += watch.seconds();
    }
    return throw_if_failed();
  }
  {
    const std::lock_guard lock(mutex_);
    end_wait();
    if (!request.now.empty()) begin_wait();
    waiting_ = std::make_unique<Request>(std::move(request));
  }
  changed_.notify_all();
  throw_if_failed();
}

void StateMover::wait() {
  {
    std::unique_lock lock(mutex_);
    begin_wait();
    is_waited_for_ = true;
    changed_.wait(lock, [this] { return waiting_ == nullptr && !is_busy_; });
    is_waited_for_ = false;
    end_wait();
  }
  throw_if_failed();
}

double StateMover::wait_seconds() const {
  const std::lock_guard lock(mutex_);
  return wait_seconds_;
}

Transfers StateMover::reading() const {
  const std::lock_guard lock(mutex_);
  return reading_;
}

Transfers StateMover::writing() const {
  const std::lock_guard lock(mutex_);
  return writing_;
}

/// Small transfers show how long the disk takes to begin, and not how fast it is.
void StateMover::count(Transfers& transfers, std::int64_t bytes, const Stopwatch& watch) {
  if (bytes < kLeastJudgedBytes) return;
  const std::lock_guard lock(mutex_);
  transfers.bytes += bytes;
  transfers.seconds += watch.seconds();
}

void StateMover::begin_wait() {
  if (!wait_) wait_ = Stopwatch();
}

void StateMover::end_wait() {
  if (wait_) wait_seconds_ += wait_->seconds();
  wait_.reset();
}

void StateMover::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || waiting_ != nullptr; });
    if (ends_) return;
    const std::unique_ptr<Request> request = std::move(waiting_);
    is_busy_ = true;
    lock.unlock();
    fulfil(*request);
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

/// Notes a failure, by errno. Returns whether the request is still to be fulfilled.
bool StateMover::note(bool succeeded, const char* what) {
  const int error = errno;
  const std::lock_guard lock(mutex_);
  if (!succeeded && failure_.empty()) failure_ = what + std::generic_category().message(error);
  return !ends_ && waiting_ == nullptr;
}

bool StateMover::read(const FileRange& piece) {
  const Stopwatch watch;
  RECORD_USER_SCOPE("offload: read");
  const std::int64_t before = bytes_read_by_thread();
  const bool goes_on = note(file_->read(piece), "reading failed: ");
  if (file_->counts_reads()) count(reading_, bytes_read_by_thread() - before, watch);
  return goes_on;
}

bool StateMover::take_out(const std::vector<FileRange>& ranges) {
  const Stopwatch watch;
  const std::int64_t before = written_bytes_;
  const auto write = [&](const FileRange& piece, auto written_by) {
    const std::optional<std::int64_t> written = (*file_.*written_by)(piece);
    const bool goes_on = note(written.has_value(), "writing failed: ");
    written_bytes_ += written.value_or(0);
    return goes_on;
  };
  const auto begin = [&](const FileRange& piece) {
    RECORD_USER_SCOPE("offload: write");
    return write(piece, &StateFile::begin_writing);
  };
  const auto end = [&](const FileRange& piece) {
    RECORD_USER_SCOPE("offload: take out");
    return write(piece, &StateFile::take_out_of_memory);
  };
  const bool goes_on = for_pieces(ranges, begin) && for_pieces(ranges, end);
  count(writing_, written_bytes_ - before, watch);
  return goes_on;
}

/// Writes all others before it reads `next`, so that memory does not grow by both.
void StateMover::fulfil(const Request& request) {
  const auto read_piece = [this](const FileRange& piece) { return read(piece); };
  if (!for_pieces(request.now, read_piece)) return;
  {
    const std::lock_guard lock(mutex_);
    const bool is_replaced = waiting_ != nullptr;
    if (!is_replaced && !is_waited_for_) end_wait();
  }
  std::vector<FileRange> kept = request.now;
  kept.insert(kept.end(), request.next.begin(), request.next.end());
  if (!take_out(rest_of(merged(std::move(kept)), file_->end()))) return;
  for_pieces(request.next, read_piece);
}

void StateMover::throw_if_failed() const {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) return;
  throw Error(file_->refused_by_disk(failure_));
}

}  // namespace accrue::memory
