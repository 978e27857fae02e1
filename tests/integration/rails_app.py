"""A Rails application for tests: a few files, no database; its jobs do what those of warm_child.py do."""

from __future__ import annotations

from pathlib import Path

ENVIRONMENT = """
require "rails"
require "active_job/railtie"

class TestApplication < Rails::Application
  config.root = File.expand_path("..", __dir__)
  config.load_defaults 6.0
  config.cache_classes = true
  config.eager_load = false
  config.logger = Logger.new(IO::NULL)
  config.secret_key_base = "s" * 64
end

Rails.application.initialize!
"""

#: The body of each job class.
JOBS = {
    "Add": "def perform(one, other) = one + other",
    "Fail": "def perform(message) = raise(ArgumentError, message)",
    "Refuse": "def perform(message) = raise(Fairway::PermanentFailure, message)",
    "Later": "def perform(seconds) = raise(Fairway::RetryAfter, seconds)",
    "Sleep": """def perform(seconds)
      puts "sleeping"
      finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
        raise IOError, Fairway.current.reason if Fairway.current.cancelled?
        sleep 0.01
      end
      "rested"
    end""",
    "Spin": """def perform(seconds)
      Signal.trap("TERM", "IGNORE")
      puts "spinning"
      sleep seconds
    end""",
    "Shout": """def perform(text)
      puts text
      $stderr.puts text.upcase
      print "no end"
      Object.new
    end""",
    "Count": """def perform(to)
      start = Fairway.current.checkpoint || 0
      (start...to).each do |number|
        Fairway.current.progress((number + 1).fdiv(to), "#{number + 1} of #{to}")
        Fairway.current.save(number + 1)
      end
      Fairway.current.log("counted")
      start
    end""",
    "Die": """def perform(code)
      $stderr.puts "dying"
      exit!(code)
    end""",
    "Large": 'def perform(length) = "x" * length',
    "Where": "def perform = { pid: Process.pid, queue: queue_name, generation: Fairway.current.generation }",
    # What is Rails' own.
    "Abort": 'def perform = abort("enough")',
    "Keywords": "def perform(one, two:, three: 3) = [one, two, three]",
    "Hold": """def perform
      puts "holding"
      sleep
    ensure
      puts "let go"
    end""",
    "Retrying": """retry_on IOError, wait: 7, attempts: 3
    def perform = raise(IOError, "no answer")""",
    "Discarding": """discard_on KeyError
    def perform = raise(KeyError, "nobody there")""",
}

OTHERS = {
    "sweeper": """
class Sweeper
  include Fairway::Runnable
  def perform(name, deep: false) = "#{name} swept#{" deeply" if deep}"
end
""",
    "mail/box": """
module Mail
  class Box
    def self.fairway_perform = [:empty]
    def self.empty(name) = "#{name} emptied"
    def self.burn = "never"
  end
end
""",
}


def make_app(folder: Path) -> Path:
    """Write the application's files; return its folder."""
    for part in ("config", "app/jobs/mail"):
        (folder / part).mkdir(parents=True)
    (folder / "config/environment.rb").write_text(ENVIRONMENT)
    for name, body in JOBS.items():
        text = f"class {name} < ActiveJob::Base\n  {body}\nend\n"
        (folder / f"app/jobs/{name.lower()}.rb").write_text(text)
    for name, text in OTHERS.items():
        (folder / f"app/jobs/{name}.rb").write_text(text)
    return folder
